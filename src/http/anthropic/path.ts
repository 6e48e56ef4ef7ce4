/** Where the Anthropic dialect lives; what a client's `baseURL` points to, and what its SDK puts behind it. */
export const BASE = "/anthropic";
export const PREFIX = `${BASE}/v1`;

export function isAnthropic(path: string): boolean {
  return path === BASE || path.startsWith(`${BASE}/`);
}
