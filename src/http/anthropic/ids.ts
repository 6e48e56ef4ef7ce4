/** The id prefixes of this dialect. */
export const ID_PREFIX = {
  agent: "agent",
  environment: "env",
  vault: "vlt",
  credential: "vcrd",
  file: "file",
  skill: "skill",
  skillVersion: "skillver",
  session: "sesn",
  resource: "sesrsc",
  work: "work",
  request: "req",
} as const;

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** A new, time-ordered id: nine base-36 digits of milliseconds, then about 64 random bits. */
export function createId(kind: keyof typeof ID_PREFIX, now = Date.now()): string {
  const random = crypto.getRandomValues(new Uint8Array(11));
  let suffix = "";
  for (const byte of random) suffix += ALPHABET[byte % ALPHABET.length];
  return `${ID_PREFIX[kind]}_${now.toString(36).padStart(9, "0")}${suffix}`;
}
