/** A text in as many pieces as asked for, or one per word; together they are the text. */
export function toDeltas(text: string, chunks?: number): string[] {
  if (text === "") return [];
  if (chunks === undefined) return text.match(/^\s+$|\s*\S+(?:\s+$)?/g) ?? [text];
  const characters = Array.from(text);
  const count = Math.min(chunks, characters.length);
  const edge = (index: number): number => Math.floor((index * characters.length) / count);
  return Array.from({ length: count }, (_, index) => characters.slice(edge(index), edge(index + 1)).join(""));
}

export function toFlood(events: number, bytes: number): string[] {
  return Array.from({ length: events }, (_, index) => `${index} `.padEnd(bytes, "~").slice(0, bytes));
}

/** A JSON text in pieces, as models give the arguments of a call. */
export function toPieces(text: string, size = 24): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
    text.slice(index * size, (index + 1) * size),
  );
}
