import { useChat } from "@ai-sdk/react";
import { DirectChatTransport, ToolLoopAgent } from "ai";
import { Engine } from "foretoken";
import { languageModel } from "foretoken/ai-sdk";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const engine = Engine.load("HuggingFaceTB/SmolLM2-360M-Instruct");
const agent = new ToolLoopAgent({ model: languageModel(engine), maxOutputTokens: 400 });
const transport = new DirectChatTransport({ agent });

function Chat() {
  const { messages, sendMessage, status, stop, error } = useChat({ transport });
  const [text, setText] = useState("");
  const send = (event) => {
    event.preventDefault();
    sendMessage({ text });
    setText("");
  };
  return (
    <>
      {messages.map(({ id, role, parts }) => (
        <p key={id} className={role}>
          {parts.map((part, i) => part.type === "text" && <span key={i}>{part.text}</span>)}
        </p>
      ))}
      <form onSubmit={send}>
        <input value={text} onChange={(event) => setText(event.target.value)} aria-label="Message" />
        {/* Two buttons by their keys: one that became the other while it is clicked would send the form. */}
        {status === "ready" || status === "error" ? (
          <button key="send" type="submit">
            Send
          </button>
        ) : (
          <button key="stop" type="button" onClick={stop}>
            Stop
          </button>
        )}
      </form>
      <p role="status">{error ? error.message : status}</p>
    </>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
