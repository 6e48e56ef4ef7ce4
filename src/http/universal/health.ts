/** The response to a health check; undefined for any other path. No imports here: the check works before the app. */
export function toHealth(path: string, version: string): { status: "ok"; version?: string } | undefined {
  if (path === "/v1/health") return { status: "ok", version };
  return path === "/healthz" ? { status: "ok" } : undefined;
}
