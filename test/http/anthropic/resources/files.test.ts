import { createHash, randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { BadRequestError, NotFoundError, toFile } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFileDocument } from "../../../../src/http/anthropic/resources/files.ts";
import {
  type AnthropicBench,
  collect,
  envelopeOf,
  failureOf,
  KEY,
  openAnthropic,
} from "../anthropic-bench.ts";
import { readAll } from "../../../support/engine.ts";
import { makeSession } from "../session-bench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic({ limits: { upload: 4 * 1024 * 1024 } });
});
afterAll(() => bench.close());

const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

async function download(id: string): Promise<Buffer> {
  return Buffer.from(await (await bench.beta.files.download(id)).arrayBuffer());
}

/** The contents of the catalog on disk. */
async function contents(): Promise<string[]> {
  const entries = await readdir(join(bench.folder, "files"), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
}

describe("J1: a file", () => {
  it("is downloaded byte for byte, and is gone after its deletion", async () => {
    for (const bytes of [
      Buffer.from("some text\r\n--with dashes\r\n"),
      randomBytes(3_000_000),
      Buffer.alloc(0),
    ]) {
      const file = await bench.beta.files.upload({ file: await toFile(bytes, "dir/in.txt") });
      expect(file).toEqual({
        id: expect.stringMatching(/^file_/),
        type: "file",
        filename: "in.txt",
        mime_type: "text/plain",
        size_bytes: bytes.length,
        downloadable: true,
        expires_at: null,
        scope: null,
        created_at: expect.any(String),
      });
      expect(await bench.beta.files.retrieveMetadata(file.id)).toEqual(file);
      expect(sha(await download(file.id))).toBe(sha(bytes));
      expect(await contents()).toEqual([sha(bytes)]);
      expect(await bench.beta.files.delete(file.id)).toEqual({ id: file.id, type: "file_deleted" });
      await expect(bench.beta.files.retrieveMetadata(file.id)).rejects.toBeInstanceOf(NotFoundError);
      await expect(bench.beta.files.download(file.id)).rejects.toBeInstanceOf(NotFoundError);
      expect(await contents()).toEqual([]);
    }
  });

  it("with text like its boundary is not truncated", async () => {
    const boundary = "----b";
    const content = `\r\n------\r\n----\r\n-----\r\n------a\r\n\r\n${"\r\n------".repeat(50_000)}`;
    const body = `------b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n${content}\r\n------b--\r\n`;
    const headers = { "x-api-key": KEY, "content-type": `multipart/form-data; boundary=${boundary}` };
    const response = await bench.raw("POST", "/files", { body, headers });
    const { id } = (await response.json()) as { id: string };
    expect((await download(id)).toString()).toBe(content);
    await bench.beta.files.delete(id);
  });

  it("has the type of its upload, or else that of its name", async () => {
    const typeOf = async (file: File): Promise<string> => (await bench.beta.files.upload({ file })).mime_type;
    expect(await typeOf(new File(["x"], "a.bin", { type: "image/png" }))).toBe("image/png");
    expect(await typeOf(new File(["x"], "a.PDF"))).toBe("application/pdf");
    expect(await typeOf(new File(["x"], "a"))).toBe("application/octet-stream");
  });

  it.each([
    ['quo"te.txt', 'quo"te.txt'],
    ["ünïcode 文.txt", "ünïcode 文.txt"],
    ["C:\\dir\\win.txt", "win.txt"],
    ["/etc/../passwd", "passwd"],
    ["..", "unnamed.txt"],
  ])("called %s is kept as %s", async (given, kept) => {
    const file = await bench.beta.files.upload({ file: new File(["x"], given, { type: "text/plain" }) });
    expect(file.filename).toBe(kept);
    const response = await bench.raw("GET", `/files/${file.id}/content`);
    const disposition = response.headers.get("content-disposition") ?? "";
    expect(decodeURIComponent(disposition.split("''")[1] ?? "")).toBe(kept);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  });

  it("takes its name from its own parameter, not from text within the quotes of another", async () => {
    const uploaded = async (parameters: string): Promise<{ status: number; filename: string }> => {
      const body = `--b\r\nContent-Disposition: form-data; ${parameters}\r\n\r\nx\r\n--b--\r\n`;
      const headers = { "x-api-key": KEY, "content-type": "multipart/form-data; boundary=b" };
      const response = await bench.raw("POST", "/files", { body, headers });
      return { status: response.status, ...((await response.json()) as { filename: string }) };
    };
    for (const [parameters, filename] of [
      [`name="file"; filename="a; filename*=UTF-8''b.txt"`, "a; filename*=UTF-8''b.txt"],
      [`filename="a; name=other"; name="file"`, "a; name=other"],
      [`NAME=file;FileName=plain.txt`, "plain.txt"],
      [`name="file"; filename="old.txt"; filename*=utf-8''n%C3%BC.txt`, "nü.txt"],
      [`name="file"; filename="kept.txt"; filename*=UTF-8''%ZZ`, "kept.txt"],
    ] as const)
      expect(await uploaded(parameters)).toMatchObject({ status: 200, filename });
  });

  it("that is too large is a 413 and leaves nothing", async () => {
    const before = await contents();
    const { error, requests } = await failureOf(bench, async () =>
      bench.beta.files.upload({ file: await toFile(Buffer.alloc(4 * 1024 * 1024 + 1), "big") }),
    );
    expect([error.status, error.type, requests]).toEqual([413, "request_too_large", 1]);
    expect(await contents()).toEqual(before);
  });

  it("of a truncated upload leaves nothing", async () => {
    const before = await contents();
    await new Promise<void>((resolve) => {
      const sent = request(`${bench.url}/anthropic/v1/files`, {
        method: "POST",
        headers: {
          "x-api-key": KEY,
          "content-type": "multipart/form-data; boundary=b",
          "content-length": 1_000_000,
        },
      });
      sent.on("error", () => resolve());
      sent.write('--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n');
      sent.write(Buffer.alloc(100_000), () => setTimeout(() => sent.destroy(), 50));
    });
    // The server notices the end of the connection a moment later.
    await expect.poll(contents, { timeout: 10_000 }).toEqual(before);
  });

  it.each([
    ["no form", "x", "text/plain"],
    ["no boundary", "x", "multipart/form-data"],
    [
      "no file",
      '--b\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n--b--\r\n',
      "multipart/form-data; boundary=b",
    ],
    [
      "no end",
      '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx',
      "multipart/form-data; boundary=b",
    ],
    [
      "two files",
      `${'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx\r\n'.repeat(2)}--b--`,
      "multipart/form-data; boundary=b",
    ],
    ["nothing", "", "multipart/form-data; boundary=b"],
  ])("is refused as %s", async (_, body, type) => {
    const before = await contents();
    const response = await bench.raw("POST", "/files", {
      body,
      headers: { "x-api-key": KEY, "content-type": type },
    });
    expect(response.status).toBe(400);
    expect((await envelopeOf(response)).error.type).toBe("invalid_request_error");
    expect(await contents()).toEqual(before);
  });
});

describe("J1: a file's expiry", () => {
  it("is shown, and is between an hour and ninety days away", async () => {
    const file = await bench.beta.files.upload({ file: new File(["x"], "x"), expires_in_seconds: 3600 });
    const seconds = (Date.parse(file.expires_at ?? "") - Date.parse(file.created_at)) / 1000;
    expect(Math.abs(seconds - 3600)).toBeLessThan(5);
    for (const expires_in_seconds of [3599, 7_776_001]) {
      const call = () => bench.beta.files.upload({ file: new File(["x"], "x"), expires_in_seconds });
      expect((await failureOf(bench, call)).error).toBeInstanceOf(BadRequestError);
    }
  });

  it("removes the content and keeps the metadata", async () => {
    const content = await bench.catalog.bytes.write(sourceOf("short-lived"));
    const file = createFileDocument({ filename: "x", mimeType: "text/plain", content, expiresInSeconds: -1 });
    await bench.catalog.write("default", [file]);
    await content.release();
    expect((await bench.beta.files.retrieveMetadata(file.id)).filename).toBe("x");
    const { error } = await failureOf(bench, () => bench.beta.files.download(file.id));
    expect([error.status, error.errorCode]).toEqual([404, "file_expired"]);
    expect(await contents()).not.toContain(content.hash);
  });
});

describe("J5: lists of files", () => {
  let own: AnthropicBench;
  let ids: string[];
  beforeAll(async () => {
    own = await openAnthropic();
    ids = [];
    for (const name of ["a", "b", "c", "d", "e"])
      ids.unshift((await own.beta.files.upload({ file: new File([name], name) })).id);
  });
  afterAll(() => own.close());

  interface OldPage {
    readonly data: { id: string }[];
    readonly next_page: string | null;
    readonly has_more: boolean;
    readonly first_id: string | null;
    readonly last_id: string | null;
  }
  const old = async (query: string): Promise<OldPage> =>
    (await (await own.raw("GET", `/files?${query}`)).json()) as OldPage;

  it("are paged by the SDK", async () => {
    expect((await collect(own.beta.files.list({ limit: 2 }))).map(({ id }) => id)).toEqual(ids);
  });

  it("by ids are one page without missing files", async () => {
    const page = await own.beta.files.list({ ids: [ids[3] ?? "", "file_nope", ids[0] ?? "", ids[0] ?? ""] });
    expect([idsOf(page).sort(), page.next_page]).toEqual([[ids[0], ids[3]].sort(), null]);
    expect((await own.raw("GET", `/files?ids[]=${ids[0]}&limit=2`)).status).toBe(400);
    const many = Array.from({ length: 101 }, (_, n) => `ids[]=file_${n}`).join("&");
    expect((await own.raw("GET", `/files?${many}`)).status).toBe(400);
  });

  it("have the fields of the old SDKs, and take their cursors", async () => {
    const first = await old("limit=2");
    expect(first).toMatchObject({ has_more: true, first_id: ids[0], last_id: ids[1] });
    const second = await old(`limit=2&after_id=${first.last_id}`);
    expect([idsOf(second), second.has_more]).toEqual([ids.slice(2, 4), true]);
    const last = await old(`limit=2&after_id=${second.last_id}`);
    expect([idsOf(last), last.has_more, last.next_page]).toEqual([ids.slice(4), false, null]);
    expect(idsOf(await old(`limit=2&before_id=${last.first_id}`))).toEqual(ids.slice(2, 4));
    expect(await old("scope_id=sesn_none")).toMatchObject({
      has_more: false,
      first_id: null,
      last_id: null,
      data: [],
    });
  });

  it("by scope have the files of a session", async () => {
    const content = await own.catalog.bytes.write(sourceOf("output"));
    const file = createFileDocument({
      filename: "out.txt",
      mimeType: "text/plain",
      content,
      scope: "sesn_1",
    });
    const { id } = file;
    await own.catalog.write("default", [file]);
    await content.release();
    const page = await own.beta.files.list({ scope_id: "sesn_1" });
    expect(page.data).toMatchObject([{ id, scope: { type: "session", id: "sesn_1" } }]);
    expect(idsOf(await own.beta.files.list({ scope_id: "sesn_2" }))).toEqual([]);
    await own.beta.files.delete(id);
  });
});

async function* sourceOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

function idsOf(page: { data: { id: string }[] }): string[] {
  return page.data.map(({ id }) => id);
}

describe("the list of a session's files", () => {
  it("creates no sandbox", async () => {
    const { id } = await makeSession(bench);
    // Gives the session an event, but no sandbox.
    await bench.beta.sessions.update(id, { title: "named" });
    expect(await collect(bench.beta.files.list({ scope_id: id }))).toEqual([]);
    const events = await readAll(bench.test.log, id);
    expect(events.map(({ type }) => type).filter((type) => type.startsWith("sandbox."))).toEqual([]);
  });
});
