/** Choice of models for a device. */

/**
 * @typedef {object} Device
 * @property {boolean} hasGpu true if WebGPU offers a GPU, and not a program that imitates one
 * @property {boolean} isPhone
 * @property {number} memory in GB, as far as the browser reports it
 */

/** Gigabytes that browsers without `deviceMemory` are assumed to have. */
const [PHONE, COMPUTER] = [4, 8];

/** Describes this device. @returns {Promise<Device>} */
export async function describeDevice() {
  const { gpu, userAgentData, userAgent, deviceMemory } = /** @type {any} */ (navigator);
  const adapter = await gpu?.requestAdapter().catch(() => null);
  const isPhone = userAgentData?.mobile ?? /Android|iPhone|iPad|Mobi/.test(userAgent);
  return { hasGpu: Boolean(adapter) && !adapter.info?.isFallbackAdapter, isPhone, memory: deviceMemory ?? (isPhone ? PHONE : COMPUTER) };
}

/** Returns ids of pairs.js: a model to talk to, a pair for the race, and the reason. @param {Device} device */
export function recommend({ hasGpu, isPhone, memory }) {
  if (!hasGpu) return { chat: "gemma3-270m", race: "smollm2-360m", why: "Models run on the CPU here, so a small one is recommended." };
  if (isPhone || memory < COMPUTER) return { chat: "qwen2.5-0.5b", race: "smollm2-360m", why: "Recommended for the memory of this device." };
  return { chat: "gemma3-1b", race: "smollm2-1.7b", why: "Recommended for this device: it has a GPU and enough memory." };
}
