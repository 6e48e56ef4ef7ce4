/** What TanStack's adapters put beside the user's files for a run: tokens and marks, nobody's work. */
const BRIDGE = /(?:^|\/)\.tanstack-mcp-bridge-[^/]+\.json$/;
const OTHERS = /(?:^|\/)\.tanstack-projected-[^/]+$/;

export const CONTROL_PATTERNS: readonly string[] = [".tanstack-mcp-bridge-*"];

export function isControlFile(path: string): boolean {
  return BRIDGE.test(path) || OTHERS.test(path);
}

/**
 * The place of this machine at which a run's tools are, if that is what was written: the sandbox has a network of its
 * own, and the bridge's port is chosen anew for each run.
 */
export function toBridgeHost(path: string, data: string | Uint8Array): string | undefined {
  if (!BRIDGE.test(path)) return undefined;
  const text = typeof data === "string" ? data : new TextDecoder().decode(data);
  const [, host] = /"url":\s*"http:\/\/(127\.0\.0\.1:\d+)\//.exec(text) ?? [];
  return host;
}
