import { readFileSync, statSync } from "node:fs";
import { z } from "zod";
import { RESERVED_OWNERS } from "../http/auth.ts";
import { CliFailure, EXIT } from "./failure.ts";
import { isSendable } from "./token.ts";

const Keys = z.record(
  z.string().refine(isSendable, "a key is one word of visible ASCII characters"),
  z.string().regex(/^[\w.-]{1,64}$/, "a workspace is named by letters, digits, '.', '_' and '-'"),
);

/** Further API keys and the workspace that each opens. In a file, because arguments show in the process list. */
export function readKeysFile(file: string): Readonly<Record<string, string>> {
  const { mode } = orFailure(file, () => statSync(file));
  if ((mode & 0o077) !== 0)
    throw new CliFailure(
      `Others can read the keys in ${file}. Close it to them: chmod 600 ${file}`,
      EXIT.usage,
    );
  const text = orFailure(file, () => readFileSync(file, "utf8"));
  const parsed = Keys.safeParse(parseJson(text));
  if (parsed.success) {
    const taken = Object.values(parsed.data).find((name) => RESERVED_OWNERS.has(name));
    if (taken === undefined) return parsed.data;
    throw new CliFailure(
      `${file} names a workspace "${taken}", which is the server's own. Give it another name.`,
      EXIT.usage,
    );
  }
  // Not where it stands: that would be the key.
  const reason = parsed.error.issues[0]?.code === "invalid_type" ? "no such object" : "a bad key or name";
  throw new CliFailure(
    `${file} holds ${reason}. It has to be a JSON object of keys and workspaces, such as {"sk-team-a": "team-a"}.`,
    EXIT.usage,
  );
}

function orFailure<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new CliFailure(
      `The keys cannot be read from ${file}: ${(error as NodeJS.ErrnoException).code}.`,
      EXIT.usage,
    );
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
