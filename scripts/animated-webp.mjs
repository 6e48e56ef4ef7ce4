/** One animated picture of several WebP pictures without transparency: `frames` are `{ bytes, ms }`, of one size. */
export function toAnimation(frames, { width, height }) {
  const size = Buffer.alloc(6);
  size.writeUIntLE(width - 1, 0, 3);
  size.writeUIntLE(height - 1, 3, 3);
  // Animated; the background is white, and it plays for ever.
  const head = chunk("VP8X", Buffer.concat([Buffer.from([2, 0, 0, 0]), size]));
  const endless = chunk("ANIM", Buffer.from([255, 255, 255, 255, 0, 0]));
  const parts = frames.map(({ bytes, ms }) => {
    const time = Buffer.alloc(4);
    time.writeUIntLE(ms, 0, 3);
    time[3] = 2; // Not blended: each covers the one before.
    return chunk("ANMF", Buffer.concat([Buffer.alloc(6), size, time, imageOf(bytes)]));
  });
  const body = Buffer.concat([Buffer.from("WEBP"), head, endless, ...parts]);
  return chunk("RIFF", body);
}

/** The part of a WebP file that is its image. */
function imageOf(bytes) {
  for (let at = 12; at < bytes.length;) {
    const name = bytes.toString("latin1", at, at + 4);
    const length = bytes.readUInt32LE(at + 4);
    const end = at + 8 + length + (length % 2);
    if (name === "VP8 " || name === "VP8L") return bytes.subarray(at, end);
    at = end;
  }
  throw new Error("the picture has no image");
}

function chunk(name, data) {
  const head = Buffer.alloc(8);
  head.write(name, "latin1");
  head.writeUInt32LE(data.length, 4);
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)]);
}
