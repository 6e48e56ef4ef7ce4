/** Clients refuse a frame of more than 10 MB; escapes and the frame's own words need room too. */
const LARGEST = 8_000_000;
const PART = 1_000_000;

/** Where the whole of it is; a frame that tells of several events has no sequence. */
export interface EventPlace {
  readonly session: string;
  readonly sequence?: number;
}

/** The texts of an event's frames: one, unless it is too large. Deltas come in parts; what else is too long is shortened, and says so. */
export function toFrameTexts(event: object, place: EventPlace): string[] {
  const text = JSON.stringify(event);
  if (text.length <= LARGEST) return [text];
  const { delta } = event as { delta?: unknown };
  if (typeof delta === "string")
    return cut(delta).flatMap((part) => JSON.stringify({ ...event, delta: part }));
  for (let longest = LARGEST / 2; longest >= 1_000; longest /= 2) {
    const shortened = JSON.stringify(shorten(event, longest, place));
    if (shortened.length <= LARGEST) return [shortened];
  }
  return [JSON.stringify(shorten(event, 100, place))];
}

function shorten(value: unknown, longest: number, place: EventPlace): unknown {
  if (typeof value === "string") return value.length <= longest ? value : shortenText(value, longest, place);
  if (Array.isArray(value)) return value.map((entry) => shorten(entry, longest, place));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key, shorten(entry, longest, place)]),
  );
}

function shortenText(text: string, longest: number, { session, sequence }: EventPlace): string {
  const kept = text.slice(0, atCharacter(text, Math.floor(longest)));
  const events = `GET /v1/sessions/${encodeURIComponent(session)}/events`;
  const where =
    sequence === undefined
      ? events
      : `event ${sequence}: ${events}?offset=${sequence - 1}&limit=1&extensions=true`;
  const left = text.length - kept.length;
  return `${kept}\n[shortened by sluice: ${left} of ${text.length} characters are left out; the session's log has the whole, ${where}]`;
}

function cut(text: string): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length;) {
    const to = atCharacter(text, Math.min(from + PART, text.length));
    parts.push(text.slice(from, to));
    from = to;
  }
  return parts;
}

/** Never between the two halves of a character. */
function atCharacter(text: string, index: number): number {
  const code = text.charCodeAt(index - 1);
  return index < text.length && code >= 0xd800 && code <= 0xdbff ? index - 1 : index;
}
