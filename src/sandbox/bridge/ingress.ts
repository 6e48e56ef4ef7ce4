/** How the host asks the inside for a port: `PORT 8080` answered by `OK` or `NO why`, each a line; then the bytes. */
export const INSIDE_FOLDER = "/run/sluice";
export const EGRESS_SOCKET = "egress.sock";
export const PRESENCE_PATH = "/presence";

/** One per network namespace: several processes of a sandbox may each have one. */
export function toIngressName(unique: string): string {
  return `ingress.${unique}.sock`;
}

export function isIngressName(name: string): boolean {
  return /^ingress\.[\w-]+\.sock$/.test(name);
}

export const LONGEST_LINE = 256;
