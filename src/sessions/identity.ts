import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { userName } from "../sandbox/host/environment.ts";
import { homeFolder } from "../sandbox/homeFolder.ts";

/** Whose machine this is: what must not be in something that is given away. */
export interface Identity {
  readonly home: string;
  readonly user: string;
  readonly host: string;
  /** As git signs with them. */
  readonly name?: string;
  readonly email?: string;
}

export function readIdentity(): Identity {
  const home = homeFolder();
  return { home, user: userName(), host: hostname(), ...readSignature(home) };
}

function readSignature(home: string): { name?: string; email?: string } {
  const signature: { name?: string; email?: string } = {};
  for (const file of [".gitconfig", ".config/git/config"]) {
    const [, section = ""] = /^\s*\[user\]([^[]*)/m.exec(readText(join(home, file))) ?? [];
    const name = /^\s*name\s*=\s*"?(.+?)"?\s*$/m.exec(section)?.[1];
    const email = /^\s*email\s*=\s*"?(.+?)"?\s*$/m.exec(section)?.[1];
    if (name !== undefined) signature.name ??= name;
    if (email !== undefined) signature.email ??= email;
  }
  return signature;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
