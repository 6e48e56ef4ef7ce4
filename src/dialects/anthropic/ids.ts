/**
 * Ids of this dialect are positions: an event's id says where in its session's log it comes from, so that nothing
 * has to be stored to find the way back.
 */
export function toEventId(session: string, sequence: number, index = 0): string {
  return `sevt_${sequence.toString(36).padStart(WIDTH, "0")}${String.fromCharCode(A + index)}${toMark(session)}`;
}

/** The position that an id names; undefined for what is no event of this session. */
export function fromEventId(session: string, id: string): { sequence: number; index: number } | undefined {
  const [, digits, letter, mark] = FORM.exec(id) ?? [];
  if (digits === undefined || letter === undefined || mark !== toMark(session)) return undefined;
  return { sequence: Number.parseInt(digits, 36), index: letter.charCodeAt(0) - A };
}

/** A session under the name that this dialect's clients expect; those that were made here have it everywhere. */
export function toSessionId(session: string): string {
  return session.startsWith(SESSION) ? session : `${SESSION}${session}`;
}

/** What a session of that name may be called in the log, the likeliest first. */
export function fromSessionId(id: string): readonly string[] {
  return id.startsWith(SESSION) && id.length > SESSION.length ? [id, id.slice(SESSION.length)] : [id];
}

/** A session has one thread, the primary one. */
export function toThreadId(session: string): string {
  const id = toSessionId(session);
  return `sthr_${id.slice(SESSION.length)}`;
}

const SESSION = "sesn_";
const WIDTH = 8;
const A = "a".charCodeAt(0);
const FORM = /^sevt_([0-9a-z]{8})([a-z])([0-9a-z]{7})$/;

/** FNV-1a: the ids of two sessions are told apart, nothing is hidden by it. */
function toMark(session: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < session.length; at++) {
    hash ^= session.charCodeAt(at);
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return hash.toString(36).padStart(7, "0");
}
