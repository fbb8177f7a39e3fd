export default {
  compatibilityDate: "2026-01-01",
  // Nuxt 4.4 fails to store the data of the page "/" with unstorage 1.17.6. This page has none.
  experimental: { payloadExtraction: false },
  // The development server of Vite 7 would bundle the engine without its worker.
  vite: { optimizeDeps: { exclude: ["foretoken"] } },
};
