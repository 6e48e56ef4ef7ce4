/** Where the AG-UI dialect lives; the agent's name stands behind it. */
export const BASE = "/ag-ui";

export function isAgUi(path: string): boolean {
  return path.startsWith(`${BASE}/`);
}
