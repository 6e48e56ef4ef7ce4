import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { SshAddress } from "./address.ts";

interface HostKey {
  readonly type: string;
  readonly key: Buffer;
  readonly isRevoked: boolean;
}

/** The keys that the known hosts have for a machine. Fails where they have none: an unknown machine is refused. */
export function findHostKeys(address: SshAddress, env: NodeJS.ProcessEnv = process.env): HostKey[] {
  const files = knownHostFiles(env);
  const keys = files.flatMap((file) => readKnownHosts(file, address));
  if (keys.some(({ isRevoked }) => !isRevoked)) return keys;
  const { host, port } = address;
  const scan = port === 22 ? host : `-p ${port} ${host}`;
  const detail = `The host key of ${address.name} is not known (${files.join(", ")}), so nothing is sent there. Check the key's fingerprint with the machine's owner, then add it: ssh-keyscan ${scan} >> ${files[0]}`;
  throw new SluiceError("permission_denied", detail, { host, port });
}

/** Whether the machine has shown a key of its own. */
export function isKnownKey(shown: Buffer, keys: readonly HostKey[]): boolean {
  const equal = keys.filter(({ key }) => key.length === shown.length && timingSafeEqual(key, shown));
  return equal.length > 0 && !equal.some(({ isRevoked }) => isRevoked);
}

function knownHostFiles(env: NodeJS.ProcessEnv): string[] {
  const named = env["SLUICE_SSH_KNOWN_HOSTS"];
  if (named !== undefined && named !== "") return [named];
  return [join(env["HOME"] ?? homedir(), ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts"];
}

function readKnownHosts(file: string, address: SshAddress): HostKey[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return [];
  }
  return text.split("\n").flatMap((line) => {
    const words = line.trim().split(/\s+/);
    if (words[0] === "" || words[0]?.startsWith("#") || words[0] === "@cert-authority") return [];
    const isRevoked = words[0] === "@revoked";
    const [names = "", type = "", key = ""] = isRevoked ? words.slice(1) : words;
    if (key === "" || !isNamed(names, address)) return [];
    return [{ type, key: Buffer.from(key, "base64"), isRevoked }];
  });
}

function isNamed(names: string, { host, port }: SshAddress): boolean {
  const name = (port === 22 ? host : `[${host}]:${port}`).toLowerCase();
  if (names.startsWith("|1|")) return isHashOf(names, name);
  const patterns = names.toLowerCase().split(",");
  const matches = (pattern: string): boolean => toExpression(pattern).test(name);
  if (patterns.some((pattern) => pattern.startsWith("!") && matches(pattern.slice(1)))) return false;
  return patterns.some((pattern) => !pattern.startsWith("!") && matches(pattern));
}

function isHashOf(hashed: string, name: string): boolean {
  const [, , salt = "", hash = ""] = hashed.split("|");
  const made = createHmac("sha1", Buffer.from(salt, "base64")).update(name).digest();
  const known = Buffer.from(hash, "base64");
  return known.length === made.length && timingSafeEqual(known, made);
}

function toExpression(pattern: string): RegExp {
  const escaped = pattern.replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`);
}
