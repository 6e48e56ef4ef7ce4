/** Where the Anthropic dialect lives; what a client's `baseURL` points to, and what its SDK puts behind it. */
export const BASE = "/anthropic";
export const PREFIX = `${BASE}/v1`;

/** Where remote runners report to: they have no API key, and sign instead. */
export const CALLBACKS = new RegExp(`^${PREFIX}/sessions/[^/]+/callbacks$`);

export function isAnthropic(path: string): boolean {
  return path === BASE || path.startsWith(`${BASE}/`);
}
