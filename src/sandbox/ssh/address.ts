import { userInfo } from "node:os";
import { SluiceError } from "../../contract/index.ts";

export interface SshAddress {
  readonly user: string;
  readonly host: string;
  readonly port: number;
  /** The same address in one spelling. */
  readonly name: string;
}

/** `ssh://user@host[:port]`; undefined for any other name. Throws for a bad one. */
export function parseSshAddress(name: string): SshAddress | undefined {
  if (!/^ssh:/i.test(name)) return undefined;
  const url = URL.canParse(name) ? new URL(name) : undefined;
  const extra = url && (url.password !== "" || !["", "/"].includes(url.pathname) || url.search || url.hash);
  const host = url && decodeURIComponent(url.hostname).replace(/^\[|\]$/g, "");
  if (!url || extra || !host || !/^ssh:\/\//i.test(name) || !/^[\w.:-]+$/.test(host)) {
    const detail = `"${name}" is no address of a machine; write ssh://user@host or ssh://user@host:port. Keys come from the SSH agent, ~/.ssh or SLUICE_SSH_KEY.`;
    throw new SluiceError("invalid_request", detail);
  }
  const user = url.username === "" ? userInfo().username : decodeURIComponent(url.username);
  const port = url.port === "" ? 22 : Number(url.port);
  const shown = host.includes(":") ? `[${host}]` : host;
  return { user, host, port, name: `ssh://${user}@${shown}${port === 22 ? "" : `:${port}`}` };
}
