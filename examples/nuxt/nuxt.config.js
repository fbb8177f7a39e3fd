export default {
  compatibilityDate: "2026-01-01",
  // This page has no data. Nuxt 4.4 cannot store those of the page "/" with the latest unstorage.
  experimental: { payloadExtraction: false },
  // The development server of Vite 7 would bundle the engine without its worker.
  vite: { optimizeDeps: { exclude: ["foretoken"] } },
};
