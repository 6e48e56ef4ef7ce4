/** An event's id encodes its position in the session's log, so that no table of ids is needed. */
export function toEventId(session: string, sequence: number, index = 0): string {
  return `sevt_${sequence.toString(36).padStart(WIDTH, "0")}${String.fromCharCode(A + index)}${toMark(session)}`;
}

/** The position in an id; undefined for an id of no event of this session. */
export function fromEventId(session: string, id: string): { sequence: number; index: number } | undefined {
  const [, digits, letter, mark] = FORM.exec(id) ?? [];
  if (digits === undefined || letter === undefined || mark !== toMark(session)) return undefined;
  return { sequence: Number.parseInt(digits, 36), index: letter.charCodeAt(0) - A };
}

/** A session's id with the prefix that clients expect; sessions of this dialect have it in the log too. */
export function toSessionId(session: string): string {
  return session.startsWith(SESSION) ? session : `${SESSION}${session}`;
}

/** The possible ids of a session in the log, the likeliest first. */
export function fromSessionId(id: string): readonly string[] {
  return id.startsWith(SESSION) && id.length > SESSION.length ? [id, id.slice(SESSION.length)] : [id];
}

/** The id of a session's one thread. */
export function toThreadId(session: string): string {
  const id = toSessionId(session);
  return `sthr_${id.slice(SESSION.length)}`;
}

const SESSION = "sesn_";
const WIDTH = 8;
const A = "a".charCodeAt(0);
const FORM = /^sevt_([0-9a-z]{8})([a-z])([0-9a-z]{7})$/;

/** A hash of the session's id (FNV-1a). It only distinguishes sessions, and is not meant to hide the id. */
function toMark(session: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < session.length; at++) {
    hash ^= session.charCodeAt(at);
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return hash.toString(36).padStart(7, "0");
}
