import { z } from "zod";

/** The prefix of each kind of id, so that a reader of an id knows its kind. */
export const ID_PREFIX = {
  event: "evt",
  session: "ses",
  turn: "turn",
  input: "inp",
  item: "itm",
  permission: "perm",
  question: "ques",
  tool: "treq",
  model: "mreq",
  command: "cmd",
  sandbox: "sbx",
  checkpoint: "ckpt",
  token: "tok",
  webhook: "whk",
} as const;

export type IdKind = keyof typeof ID_PREFIX;

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz";

const RANDOM_DIGITS = 11;
// Randomness for 64 ids at a time: one call costs as much as the rest of an id.
const randomness = new Uint8Array(RANDOM_DIGITS * 64);
let unused = 0;

/** A new, time-ordered id: nine base-36 digits of milliseconds, then eleven random letters and digits. */
export function createId(kind: IdKind, now = Date.now()): string {
  if (unused < RANDOM_DIGITS) {
    crypto.getRandomValues(randomness);
    unused = randomness.length;
  }
  let suffix = "";
  for (let digit = 0; digit < RANDOM_DIGITS; digit++) {
    suffix += ALPHABET[(randomness[--unused] as number) % ALPHABET.length];
  }
  return `${ID_PREFIX[kind]}_${now.toString(36).padStart(9, "0")}${suffix}`;
}

/** The time of an id in milliseconds; undefined for any other text. */
export function toIdTime(id: string): number | undefined {
  const [, digits] = /^[a-z]+_([0-9a-z]{9})\w{11}$/.exec(id) ?? [];
  return digits === undefined ? undefined : Number.parseInt(digits, 36);
}

/** A client may choose a session's id, so the id has to be safe in a URL, a log line and a file name. */
export const SessionId = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/,
    "a session id has 1 to 128 letters, digits, '.', '_', ':' or '-', and starts with a letter or digit",
  );
export type SessionId = z.infer<typeof SessionId>;

/** Words with a path of their own below `/v1/sessions/`. No new session gets one of them as its id. */
export const RESERVED_SESSION_IDS: ReadonlySet<string> = new Set(["sse"]);
