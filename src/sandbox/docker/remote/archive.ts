const BLOCK = 512;

interface Entry {
  /** Relative to the root; a folder ends with a slash. */
  readonly name: string;
  readonly content?: Buffer;
}

/** A tar archive of small files and folders that belong to this user. */
export function toArchive(entries: readonly Entry[], user: number): Buffer {
  const blocks = entries.flatMap(({ name, content = Buffer.alloc(0) }) => {
    const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK);
    return [toHeader(name, content.length, user), content, padding];
  });
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]);
}

function toHeader(name: string, size: number, user: number): Buffer {
  const isFolder = name.endsWith("/");
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number): void =>
    void header.write(value.toString(8).padStart(length - 1, "0"), at, "latin1");
  header.write(name, 0, "latin1");
  octal(isFolder ? 0o755 : 0o644, 100, 8);
  octal(user, 108, 8);
  octal(user, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  // The checksum counts itself as spaces.
  header.write(" ".repeat(8), 148, "latin1");
  header.write(isFolder ? "5" : "0", 156, "latin1");
  header.write("ustar\x0000", 257, "latin1");
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return header;
}
