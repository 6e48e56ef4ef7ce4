import { SluiceError, type Launch } from "../../contract/index.ts";
import type { Harness, LentLogin } from "../../harness/port.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { collectSecrets, type FoundLogin } from "./credentials.ts";

/** A CLI's own login files are shorter. A longer one is the agent's work, and is not read. */
const MAX_LOGIN_BYTES = 256 * 1024;
/** An agent may write any date. A longer validity is not believed. */
const LONGEST_MS = 400 * 24 * 3_600_000;
/** A login that expires during the start is of no use. */
const MARGIN_MS = 30_000;

export interface PreparedLogin {
  /** The files to write before the start. */
  readonly files: NonNullable<Launch["files"]>;
  /** The agent's login file. */
  readonly content: string;
}

/** The login for this start: the server's, unless the one in the agent's home is valid for longer. */
export async function prepareLogin(
  { file, lent, companions, lend }: FoundLogin,
  options: { harness: Harness; sandbox: Sandbox; values: Map<string, string>; now?: number },
): Promise<PreparedLogin> {
  const { harness, sandbox, values, now = Date.now() } = options;
  const inside = await readInside(sandbox, file);
  const kept = inside === undefined ? undefined : lend(inside);
  const prepare = (content: string): PreparedLogin => ({
    files: [...companions, { path: file, content, mode: 0o600 }],
    content,
  });
  // The newer login is written again, without the token that renews it.
  if (isNewer(kept, lent, now)) {
    collectSecrets(file, kept.content, values);
    return prepare(kept.content);
  }
  if ("refusal" in lent) throw refuse(lent.refusal, file);
  if (lent.expiresAt !== undefined && lent.expiresAt <= now + MARGIN_MS) {
    const until = new Date(lent.expiresAt).toISOString();
    throw refuse(`${harness.title}'s login on the server expired at ${until}: ${howToRenew(harness)}`, file);
  }
  return prepare(lent.content);
}

/** Adds the login in the agent's home to the values that are redacted. */
export async function collectInside(
  { file, lend }: FoundLogin,
  sandbox: Sandbox,
  values: Map<string, string>,
): Promise<void> {
  const inside = await readInside(sandbox, file);
  const kept = inside === undefined ? undefined : lend(inside);
  if (kept && "content" in kept) collectSecrets(file, kept.content, values);
}

function isNewer(kept: LentLogin | undefined, lent: LentLogin, now: number): kept is { content: string } {
  if (kept === undefined || "refusal" in kept || "refusal" in lent) return false;
  const [ours, theirs] = [lent.expiresAt, kept.expiresAt];
  if (ours === undefined || theirs === undefined) return false;
  return theirs > ours && theirs > now + MARGIN_MS && theirs < now + LONGEST_MS;
}

async function readInside({ files, paths }: Sandbox, file: string): Promise<string | undefined> {
  const path = `${paths.home}/${file}`;
  try {
    const { entryType, size } = await files.stat(path);
    if (entryType !== "file" || size > MAX_LOGIN_BYTES) return undefined;
    return Buffer.from(await files.read(path)).toString("utf8");
  } catch {
    // There is none, or it is not a file of the sandbox.
    return undefined;
  }
}

function howToRenew({ credentials = [] }: Harness): string {
  const keys = credentials.flatMap((known) => ("env" in known ? [known.env] : []));
  const instead = keys.length === 0 ? "" : `, or set ${keys[0]}`;
  return `no sandbox can renew it. Start the agent's own CLI on the server once, or log in there again${instead}`;
}

function refuse(detail: string, file: string): SluiceError {
  return new SluiceError("invalid_request", `${detail}.`, { login: `~/${file}` });
}
