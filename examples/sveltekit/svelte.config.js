import adapter from "@sveltejs/adapter-static";

export default {
  kit: {
    adapter: adapter(),
    // SvelteKit starts the page by an inline script. This adds the hash of the script to the policy.
    csp: { directives: { "script-src": ["self", "wasm-unsafe-eval"], "worker-src": ["self"] } },
  },
};
