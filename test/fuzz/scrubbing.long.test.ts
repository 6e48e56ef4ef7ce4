import { createServer, request as startRequest, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { array, constantFrom, integer, oneof, record, string, uint8Array } from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LentSecret } from "../../src/contract/index.ts";
import { parseHostPatterns } from "../../src/sandbox/egress/allow-list.ts";
import { createResolve } from "../../src/sandbox/egress/host/dial.ts";
import { Lender } from "../../src/sandbox/egress/host/lender.ts";
import { createProxy } from "../../src/sandbox/egress/host/proxy.ts";
import { Scrubber } from "../../src/sandbox/egress/host/scrubber.ts";
import { SecretForms } from "../../src/sandbox/egress/host/secret-forms.ts";
import { ScrubFrames } from "../../src/sandbox/egress/host/web-socket.ts";
import { DESK_TOKEN, toDesk } from "../sandbox/egress/lending-desk.ts";
import { fuzz } from "./fuzz.ts";
import { BASE64, decodeAll, ENCODINGS } from "./secret-forms.ts";

const PLACEHOLDER = "SLUICE_SECRET_0123456789abcdef0123456789abcdef01234567";

const secrets = oneof(
  string({ unit: "grapheme-ascii", minLength: 8, maxLength: 64 }),
  string({ unit: "binary", minLength: 8, maxLength: 40 }),
  string({ unit: constantFrom(...'abAB01+/\\"&%=-_ \n'), minLength: 8, maxLength: 90 }),
  string({ unit: constantFrom("a", "b"), minLength: 8, maxLength: 12 }),
).filter(
  (text) =>
    Buffer.from(Buffer.from(text).toString("utf8")).toString("utf8") === text && !PLACEHOLDER.includes(text),
);

const inputs = record({
  secret: secrets,
  encoding: constantFrom(...Object.keys(ENCODINGS)),
  base64: constantFrom(...Object.keys(BASE64)),
  before: uint8Array({ maxLength: 80 }),
  after: uint8Array({ maxLength: 80 }),
  cuts: array(integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 }),
});

function toPieces(input: { cuts: number[]; body: Buffer }): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, turn = 0; at < input.body.length; turn++) {
    const size = input.cuts[turn % input.cuts.length] as number;
    pieces.push(input.body.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

function scrub(secret: string, pieces: readonly Buffer[]): Buffer {
  const scrubber = new Scrubber(new SecretForms([{ value: secret, placeholder: PLACEHOLDER }]));
  return Buffer.concat([...pieces.map((piece) => scrubber.write(piece)), scrubber.end()]);
}

describe("a scrubbed stream", () => {
  fuzz("never holds the secret in any form, with any cuts", {
    inputs,
    tries: 600,
    check({ secret, encoding, before, after, cuts }) {
      const coded = (ENCODINGS[encoding] as (text: string) => Buffer)(secret);
      const body = Buffer.concat([before, coded, after]);
      const given = scrub(secret, toPieces({ cuts, body }));
      expect(given.includes(coded)).toBe(false);
      expect(given.includes(PLACEHOLDER)).toBe(true);
    },
  });

  fuzz("never holds the secret in base64 of a longer text", {
    inputs,
    tries: 600,
    check({ secret, base64, before, after, cuts }) {
      const whole = Buffer.concat([before, Buffer.from(secret), after]);
      const body = Buffer.from((BASE64[base64] as (bytes: Buffer) => string)(whole));
      const given = scrub(secret, toPieces({ cuts, body })).toString("latin1");
      expect(given).toContain(PLACEHOLDER);
      for (const text of decodeAll(given)) expect(text).not.toContain(Buffer.from(secret).toString("latin1"));
    },
  });

  fuzz("passes a stream without the secret unchanged, and holds nothing back at its end", {
    inputs: record({
      secret: string({ unit: "grapheme-ascii", minLength: 16, maxLength: 40 }),
      body: oneof(
        uint8Array({ maxLength: 2_000 }),
        string({ unit: constantFrom(...'abAB01+/\\"&%=-_ \n#x;u'), maxLength: 400 }).map((text) =>
          Buffer.from(text),
        ),
      ),
      cuts: array(integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 }),
    }),
    tries: 400,
    check({ secret, body, cuts }) {
      const bytes = Buffer.from(body);
      expect(scrub(secret, toPieces({ cuts, body: bytes })).equals(bytes)).toBe(true);
    },
  });

  fuzz("that is flushed never passes a whole secret", {
    inputs,
    tries: 400,
    check({ secret, encoding, before, after, cuts }) {
      const coded = (ENCODINGS[encoding] as (text: string) => Buffer)(secret);
      const scrubber = new Scrubber(new SecretForms([{ value: secret, placeholder: PLACEHOLDER }]));
      let given: Buffer = Buffer.alloc(0);
      try {
        for (const piece of toPieces({ cuts, body: Buffer.concat([before, coded, after]) })) {
          given = Buffer.concat([given, scrubber.write(piece), scrubber.release()]);
        }
        given = Buffer.concat([given, scrubber.end()]);
      } catch (error) {
        expect(String(error)).toContain("is not given out");
      }
      expect(given.includes(coded)).toBe(false);
    },
  });

  fuzz("of a WebSocket has whole frames, and no message with the secret", {
    inputs: record({
      secret: string({ unit: "grapheme-ascii", minLength: 8, maxLength: 40 }),
      messages: array(
        array(oneof(string({ maxLength: 30 }), constantFrom("<", ">")), { minLength: 1, maxLength: 6 }),
        { minLength: 1, maxLength: 4 },
      ),
      fragment: integer({ min: 1, max: 50 }),
      cuts: array(integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 }),
    }),
    tries: 300,
    async check({ secret, messages, fragment, cuts }) {
      const texts = messages.map((words) => words.join("").replaceAll("<", secret));
      const body = Buffer.concat(texts.map((text) => toFrames(Buffer.from(text), fragment)));
      const forms = new SecretForms([{ value: secret, placeholder: PLACEHOLDER }]);
      const stream = new ScrubFrames(() => new Scrubber(forms));
      for (const piece of toPieces({ cuts, body })) stream.write(piece);
      stream.end();
      const chunks: Buffer[] = [];
      for await (const chunk of stream) chunks.push(chunk as Buffer);
      const given = fromFrames(Buffer.concat(chunks));
      expect(given).toHaveLength(texts.length);
      for (const [at, text] of given.entries()) {
        expect(text).not.toContain(secret);
        if (!texts[at]?.includes(secret)) expect(text).toBe(texts[at]);
      }
    },
  });

  it("is given out as it comes where nothing of it can be a beginning", () => {
    const scrubber = new Scrubber(new SecretForms([{ value: "v4lue-of-it", placeholder: PLACEHOLDER }]));
    for (let event = 0; event < 64; event++) {
      const text = `data: {"text":"number ${event}, ${String.fromCharCode(33 + event)}"}\n\n`;
      expect(scrubber.write(Buffer.from(text)).toString()).toBe(text);
    }
  });

  it("holds back a bounded number of bytes", () => {
    const scrubber = new Scrubber(new SecretForms([{ value: "v4lue-of-it", placeholder: PLACEHOLDER }]));
    scrubber.write(Buffer.from("v"));
    expect(() => {
      for (let round = 0; round < 10; round++) scrubber.write(Buffer.alloc(16_384, "\\"));
    }).toThrow("has no end");
  });
});

describe("an answer through the proxy", () => {
  const servers: Server[] = [];
  let secret: LentSecret | undefined;
  let answer: RequestListener;
  let [proxyPort, upstreamPort] = [0, 0];

  const listen = async (server: Server): Promise<number> => {
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  };
  beforeAll(async () => {
    upstreamPort = await listen(createServer((request, response) => answer(request, response)));
  });
  afterAll(async () => {
    for (const server of servers) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  });

  /** One lender for each secret: a lender remembers for good. */
  const lend = async (value: string): Promise<void> => {
    secret = { placeholder: PLACEHOLDER, value, header: true, body: true, hosts: ["127.0.0.1"] };
    const desk = await listen(createServer(toDesk(() => (secret === undefined ? [] : [secret]))));
    const lending = { url: `http://127.0.0.1:${desk}/s`, token: DESK_TOKEN };
    const proxy = createProxy({
      patterns: parseHostPatterns([`127.0.0.1:${upstreamPort}`]),
      resolve: createResolve(),
      lender: new Lender({ lending, own: [] }),
      fingerprint: "fuzz",
    });
    proxyPort = await listen(proxy);
  };
  const ask = (): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      const headers = { host: "x", range: "bytes=0-4", "accept-encoding": "gzip, br" };
      const path = `http://127.0.0.1:${upstreamPort}/`;
      const request = startRequest({ port: proxyPort, path, headers }, async (incoming) => {
        const head = [incoming.statusMessage, ...incoming.rawHeaders].join("\n");
        const chunks: Buffer[] = [Buffer.from(head, "latin1")];
        try {
          for await (const chunk of incoming) chunks.push(chunk as Buffer);
        } catch {
          // Cut off is as good as scrubbed.
        }
        resolve(Buffer.concat(chunks));
      });
      request.on("error", reject);
      request.end();
    });

  fuzz("never holds the secret, in any coding and with any cuts", {
    inputs: record({
      secret: string({ unit: constantFrom(..."abcXYZ0189-_.~+/="), minLength: 12, maxLength: 40 }),
      encoding: constantFrom(...Object.keys(ENCODINGS)),
      codings: array(constantFrom("gzip", "deflate", "br", "identity", "zstd", "x"), { maxLength: 4 }),
      before: uint8Array({ maxLength: 80 }),
      cuts: array(integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 }),
      status: constantFrom(200, 206, 401, 500),
      inHead: constantFrom("header", "reason", "name", "nowhere"),
    }),
    tries: 60,
    async check({ secret, encoding, codings, before, cuts, status, inHead }) {
      await lend(secret);
      const coded = (ENCODINGS[encoding] as (text: string) => Buffer)(secret);
      const body = codings.reduce<Buffer>(
        (bytes, name) => CODERS[name]?.(bytes) ?? bytes,
        Buffer.concat([before, coded]),
      );
      const seen: (string | undefined)[] = [];
      answer = (request, response) => {
        seen.push(request.headers.range, request.headers["accept-encoding"]);
        if (codings.length > 0) response.setHeader("content-encoding", codings.join(", "));
        if (inHead === "header")
          response.setHeader("x-echo", [`Bearer ${secret}`, Buffer.from(`u:${secret}`).toString("base64")]);
        if (inHead === "name") response.setHeader(`x-${Buffer.from(secret).toString("hex")}`, "1");
        response.writeHead(status, inHead === "reason" ? `Bad ${secret}` : undefined);
        for (const piece of toPieces({ cuts, body })) response.write(piece);
        response.end();
      };
      const given = await ask();
      expect(seen).toEqual([undefined, "identity"]);
      for (const form of [coded, Buffer.from(secret), Buffer.from(Buffer.from(secret).toString("hex"))]) {
        expect(given.includes(form)).toBe(false);
      }
      for (const text of decodeAll(given.toString("latin1"))) expect(text).not.toContain(secret);
      const isKnown = codings.every((name) => name === "identity" || name in CODERS);
      const isReadable = isKnown && codings.filter((name) => name !== "identity").length <= 3;
      // A coded body would hide it.
      expect(given.includes(PLACEHOLDER)).toBe(isReadable && status !== 206);
      for (const server of servers.splice(1)) {
        server.closeAllConnections();
        server.close();
      }
    },
  });
});

const CODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: (bytes) => gzipSync(bytes),
  deflate: (bytes) => deflateSync(bytes),
  br: (bytes) => brotliCompressSync(bytes),
};

function toFrames(payload: Buffer, fragment: number): Buffer {
  const frames: Buffer[] = [];
  for (let at = 0; at === 0 || at < payload.length; at += fragment) {
    const part = payload.subarray(at, at + fragment);
    const isLast = at + fragment >= payload.length;
    frames.push(Buffer.from([(at === 0 ? 1 : 0) | (isLast ? 128 : 0), part.length]), part);
    // Between the frames of a message others may come.
    if (!isLast) frames.push(Buffer.from([0x89, 0]));
  }
  return Buffer.concat(frames);
}

function fromFrames(bytes: Buffer): string[] {
  const messages: string[] = [];
  let parts: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const [first = 0, second = 0] = bytes.subarray(at);
    const size = second === 126 ? 2 : 0;
    expect(second).toBeLessThan(127);
    const length = size === 2 ? bytes.readUInt16BE(at + 2) : second;
    const payload = bytes.subarray(at + 2 + size, at + 2 + size + length);
    expect(payload).toHaveLength(length);
    at += 2 + size + length;
    if ((first & 15) >= 8) continue;
    expect(first & 15).toBe(parts.length === 0 ? 1 : 0);
    parts.push(payload);
    if (first < 128) continue;
    messages.push(Buffer.concat(parts).toString("utf8"));
    parts = [];
  }
  return messages;
}
