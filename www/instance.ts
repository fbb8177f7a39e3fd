/** A worker with one instance of a model, or with some rows of each large matrix, for the engine's own thread. instance-workers.ts and threads.ts use it. */
import init, { serve, Share } from "./foretoken.js";
import type { FromInstance, ToInstance } from "./protocol.js";
import { explain, hasTwins, opening } from "./loading.js";
import { answer } from "./threads.js";

/** The port for orders, once this worker has one. */
let port: MessagePort | undefined;
/** Returns the port for orders; none, if this worker is the engine's own thread. */
export const orders = () => port;

/** Works on one instance of a model from now on. @param start starts the engine's module */
export function work(from: MessagePort, start: (wasm: string | undefined, options: { device?: unknown }) => Promise<unknown>) {
  port = from;
  let server: import("./foretoken.js").Server;
  const send = (message: FromInstance) => from.postMessage(message);
  from.onmessageerror = () => send({ type: "error", error: explain("a worker could not read a message") });
  send({ type: "listening" });
  from.onmessage = async ({ data }: { data: ToInstance }) => {
    if (data.type === "order") server.order(data.order);
    if (data.type === "counters") send({ type: "counters", counters: server.counters() });
    if (data.type === "share") {
      try {
        await init({ module_or_path: data.module });
        send({ type: "started" });
      } catch (error) {
        return send({ type: "error", error: explain(error) });
      }
      // From here on it answers in that memory alone, and reads no message.
      answer(data.buffer, new Share());
    }
    if (data.type !== "load") return;
    const { load } = data;
    const { model, wasm, index, context, lock, options } = load;
    // Held for as long as this worker lives.
    await new Promise((held) => navigator.locks.request(lock, () => new Promise(() => held(undefined))));
    send({ type: "started" });
    try {
      await start(wasm, options);
      // To give up loading, this worker is ended.
      const { signal } = new AbortController();
      const { open, upload } = opening(load, { emit: (progress: any) => send({ type: "progress", progress }), warn: () => {}, signal });
      const files = open(model, context === undefined ? "target" : "assistant");
      try {
        // Where two adapters are one, asking for the other changes nothing.
        const lowPower = index % 2 === 1 && (await hasTwins());
        const report = (numbered: any) => send({ type: "report", ...numbered });
        server = await serve(files, index, context, lowPower, options, upload, report);
      } finally {
        files.close?.();
      }
      send({ type: "ready", device: server.device(), memory: server.memory() });
    } catch (error) {
      send({ type: "error", error: explain(error) });
    }
  };
}
