import { expect, it } from "vitest";
import { readParts } from "../../../src/http/body/multipart.ts";

it("a form reads the same wherever its bytes are cut into chunks", async () => {
  // The second part has no content: its boundary follows the head directly.
  const form = Buffer.from(
    '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\none\r\n' +
      '--b\r\nContent-Disposition: form-data; name="empty"\r\n\r\n' +
      '--b\r\nContent-Disposition: form-data; name="c"\r\n\r\n\r\n--b--\r\n',
  );
  const whole = await read(form);
  expect(whole).toEqual([
    ["a", "one"],
    ["empty", ""],
    ["c", ""],
  ]);
  for (let cut = 1; cut < form.length; cut++)
    expect(await read(form.subarray(0, cut), form.subarray(cut)), `cut at ${cut}`).toEqual(whole);
});

async function read(...chunks: Buffer[]): Promise<[string, string][]> {
  const source = (async function* (): AsyncGenerator<Buffer> {
    yield* chunks;
  })();
  const parts: [string, string][] = [];
  for await (const { name, content } of readParts(source, "multipart/form-data; boundary=b")) {
    let text = "";
    for await (const chunk of content) text += Buffer.from(chunk).toString();
    parts.push([name, text]);
  }
  return parts;
}
