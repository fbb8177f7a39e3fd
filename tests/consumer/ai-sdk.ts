// foretoken/ai-sdk, as a TypeScript user writes it. It only has to compile.
import { ToolLoopAgent, streamText, type LanguageModel } from "ai";
import { Engine } from "foretoken";
import { languageModel } from "foretoken/ai-sdk";

const loading: Promise<Engine> = Engine.load("owner/name");
const model: LanguageModel = languageModel(loading, "owner/name");
export const agent = new ToolLoopAgent({ model });
export const { textStream } = streamText({ model: languageModel(await loading), prompt: "Why?" });
// @ts-expect-error: a model's name is no engine
languageModel("owner/name");
