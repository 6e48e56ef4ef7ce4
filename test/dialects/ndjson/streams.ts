/** A byte stream in the given pieces. */
export function streamOf<T>(pieces: readonly T[]): ReadableStream<T> {
  return new ReadableStream<T>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

export async function collect<T>(stream: ReadableStream<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const value of stream as unknown as AsyncIterable<T>) all.push(value);
  return all;
}

export async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}

/** The bytes, split at these positions. */
export function cutAt(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  const pieces: Uint8Array[] = [];
  let from = 0;
  for (const end of [...ends, bytes.length]) {
    pieces.push(bytes.slice(from, end));
    from = end;
  }
  return pieces;
}

export interface Sse {
  readonly event: string;
  readonly id: string;
  readonly data: unknown;
}

/** Frames as a browser reads them; any other text is an error. */
export function toSse(text: string): Sse[] {
  return text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => {
      const match = /^event: (\w+)\nid: ([\d.]+)\ndata: (.*)$/.exec(block);
      if (!match) throw new Error(`no frame: ${JSON.stringify(block)}`);
      return { event: match[1] ?? "", id: match[2] ?? "", data: JSON.parse(match[3] ?? "") };
    });
}
