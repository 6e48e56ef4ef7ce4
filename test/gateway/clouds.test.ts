import { describe, expect, it } from "vitest";
import type { ModelRoute } from "../../src/contract/process.ts";
import { AnswerReader } from "../../src/gateway/answer-reader.ts";
import { Authorizer } from "../../src/gateway/credential.ts";
import { parseCall } from "../../src/gateway/paths.ts";
import { bedrock } from "../../src/gateway/wires/clouds.ts";
import { GOOGLE_KEY, toFrame } from "./clouds.ts";

const EVENTS = [
  {
    type: "message_start",
    message: { id: "msg_1", model: "claude", usage: { input_tokens: 30, output_tokens: 1 } },
  },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "héllo" } },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 12 } },
  { type: "message_stop" },
];
const STREAM = Buffer.concat(EVENTS.map((event) => toFrame(JSON.stringify(event))));

function read(bytes: Buffer, size: number): AnswerReader {
  const reader = new AnswerReader(bedrock, "application/vnd.amazon.eventstream");
  for (let at = 0; at < bytes.length; at += size) reader.write(bytes.subarray(at, at + size));
  reader.end();
  return reader;
}

describe("a stream of AWS", () => {
  it.each([1, 7, 64, STREAM.length])("is read, in pieces of %i bytes", (size) => {
    const { facts, spoken } = read(STREAM, size);
    expect(facts).toEqual({
      responseId: "msg_1",
      model: "claude",
      usage: { input_tokens: 30, output_tokens: 12 },
      stopReason: "end_turn",
      isDone: true,
    });
    expect(spoken).toBe(5);
  });

  it("tells its exceptions", () => {
    const names = { ":message-type": "exception", ":exception-type": "throttlingException" };
    expect(read(toFrame("{}", names), 9).facts).toEqual({ error: "throttlingException", isDone: true });
  });

  it("of nonsense passes unread", () => {
    for (const bytes of [
      Buffer.alloc(64),
      Buffer.alloc(64, 255),
      STREAM.subarray(0, 40),
      Buffer.from("<html>no</html>"),
    ])
      expect(read(bytes, 5).facts).toEqual({});
  });
});

const route: ModelRoute = {
  id: "bedrock",
  upstream: "https://runtime.example",
  lists: "https://lists.example",
  provider: "bedrock",
  auth: { awsRegion: "eu-west-1" },
  tokenInPath: true,
};

describe("the path of a cloud's call", () => {
  it("loses its token, and keeps the escapes of a model's name only", () => {
    const path = "/model/eu.anthropic.claude-v1%3A0/invoke-with-response-stream";
    expect(parseCall([route], "POST", `/bedrock/sess_1${path}`)).toMatchObject({
      path,
      isModelRequest: true,
    });
    const list = parseCall([route], "GET", "/bedrock/sess_1/inference-profiles?type=SYSTEM_DEFINED");
    expect(list).toMatchObject({
      path: "/inference-profiles?type=SYSTEM_DEFINED",
      route: { upstream: "https://lists.example" },
    });
    for (const url of [
      `/bedrock/sess_1%2F..${path}`,
      "/bedrock/sess_1/model/a%2e%2e/invoke",
      "/bedrock/sess_1/model/a/b%3A0/invoke-with-response-stream/x",
      "/bedrock/sess_1/guardrails",
      "/bedrock/sess_1",
    ])
      expect([url, parseCall([route], "POST", url)]).toEqual([url, undefined]);
  });
});

describe("a credential of a cloud that cannot be used", () => {
  const outgoing = { method: "POST", url: "https://h.example/x", body: Buffer.from("{}") };
  const google: ModelRoute = {
    ...route,
    provider: "vertex",
    auth: { googleTokenUrl: "https://t.example/token" },
  };

  it("is told, without a part of it", async () => {
    const answers = [
      { status: 500, text: `no ${GOOGLE_KEY}` },
      { status: 200, text: "{}" },
    ];
    const authorizer = new Authorizer(async () => answers.shift() ?? { status: 200, text: "" });
    for (const [to, key, why] of [
      [route, JSON.stringify({ AWS_SECRET_ACCESS_KEY: "hush-hush" }), /belong together/],
      [google, "no JSON", /not the JSON of a key file/],
      [google, JSON.stringify({ client_email: "a@b", private_key: "hush-hush" }), /cannot sign/],
      [google, GOOGLE_KEY, /answered with 500/],
      [google, GOOGLE_KEY, /answered with 200/],
    ] as const) {
      const error = await authorizer.of(to, key, outgoing).catch((thrown: Error) => thrown);
      expect(error).toMatchObject({ status: 401, message: expect.stringMatching(why) });
      expect((error as Error).message).not.toMatch(/hush|PRIVATE/);
    }
  });

  it("is a token once for many requests", async () => {
    let asked = 0;
    const authorizer = new Authorizer(async () => {
      asked += 1;
      return { status: 200, text: JSON.stringify({ access_token: "t", expires_in: 3_600 }) };
    });
    const got = [
      await authorizer.of(google, GOOGLE_KEY, outgoing),
      await authorizer.of(google, GOOGLE_KEY, outgoing),
    ];
    expect(got.map(({ headers }) => headers)).toEqual([
      { authorization: ["Bearer t"] },
      { authorization: ["Bearer t"] },
    ]);
    expect(asked).toBe(1);
  });
});
