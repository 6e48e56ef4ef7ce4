/** The first byte of a TLS connection. */
export const TLS_HANDSHAKE = 0x16;

/** The most bytes to wait for. A usual hello has less than 2 KB. */
const LONGEST_HELLO = 32_768;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;

/**
 * The server name in a TLS client's hello. It is "" where the hello has none, "?" where it is ambiguous or damaged, and
 * undefined where more bytes have to come.
 */
export function toServerName(bytes: Buffer): string | undefined {
  const hello = toHandshake(bytes);
  if (hello === undefined) return bytes.length > LONGEST_HELLO ? "?" : undefined;
  try {
    return toName(new Cursor(hello));
  } catch {
    return "?";
  }
}

/** The first handshake message, which may come in several records; undefined where it is not complete. */
function toHandshake(bytes: Buffer): Buffer | undefined {
  const parts: Buffer[] = [];
  for (let at = 0; at + 5 <= bytes.length && bytes[at] === TLS_HANDSHAKE;) {
    const end = at + 5 + bytes.readUInt16BE(at + 3);
    parts.push(bytes.subarray(at + 5, end));
    at = end;
  }
  const text = Buffer.concat(parts);
  if (text.length < 4) return undefined;
  const length = text.readUIntBE(1, 3);
  if (text[0] !== CLIENT_HELLO) return Buffer.alloc(0);
  return text.length < length + 4 ? undefined : text.subarray(4, length + 4);
}

/** RFC 8446, 4.1.2, and RFC 6066, 3. */
function toName(hello: Cursor): string {
  hello.take(2 + 32);
  hello.vector(1);
  hello.vector(2);
  hello.vector(1);
  const extensions = hello.isAtEnd ? hello : hello.vector(2);
  const names: string[] = [];
  while (!extensions.isAtEnd) {
    const type = extensions.number(2);
    const content = extensions.vector(2);
    if (type !== SERVER_NAME) continue;
    const list = content.vector(2);
    while (!list.isAtEnd) {
      list.take(1);
      names.push(list.vector(2).rest.toString("latin1"));
    }
  }
  // Of several names, servers could choose different ones.
  if (names.length > 1) return "?";
  return (names[0] ?? "").toLowerCase().replace(/\.$/, "");
}

class Cursor {
  rest: Buffer;

  constructor(bytes: Buffer) {
    this.rest = bytes;
  }

  get isAtEnd(): boolean {
    return this.rest.length === 0;
  }

  take(count: number): Buffer {
    if (count > this.rest.length) throw new RangeError("the message is shorter than it says");
    const taken = this.rest.subarray(0, count);
    this.rest = this.rest.subarray(count);
    return taken;
  }

  number(bytes: number): number {
    return this.take(bytes).readUIntBE(0, bytes);
  }

  vector(bytes: number): Cursor {
    return new Cursor(this.take(this.number(bytes)));
  }
}
