/** A worker that is an instance of a model (instance-workers.ts) or a thread of the CPU (threads.ts). */
import init, { serve, Share } from "./foretoken.js";
import type { FromInstance, ToInstance } from "./protocol.js";
import { explain, hasTwins, opening } from "./loading.js";
import { answer } from "./threads.js";

let port: MessagePort | undefined;
/** Returns the port for orders; undefined in the engine's own worker. */
export const orders = () => port;

/** Becomes an instance or a thread. @param start starts the engine's module */
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
      answer(data.buffer, new Share());
    }
    if (data.type !== "load") return;
    const { load } = data;
    const { model, wasm, index, context, lock, options } = load;
    // Held until this worker ends.
    await new Promise((held) => navigator.locks.request(lock, () => new Promise(() => held(undefined))));
    send({ type: "started" });
    try {
      await start(wasm, options);
      // Loading is aborted by ending this worker.
      const { signal } = new AbortController();
      const { open, upload } = opening(load, { emit: (progress: any) => send({ type: "progress", progress }), warn: () => {}, signal });
      const files = open(model, context === undefined ? "target" : "assistant");
      try {
        // With one adapter, the request for the other has no effect.
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
