import { createHash, createHmac, createVerify, generateKeyPairSync, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { ScriptedModel } from "../../src/model/index.ts";
import { listen } from "./lab.ts";

/** A cloud in front of a scripted model. It takes no request without the right signature or token. */
export interface FakeCloud {
  readonly server: Server;
  /** The requests that were authorized, and the reasons for which others were not. */
  readonly passed: string[];
  readonly refused: string[];
}

export const AWS = {
  AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7CANARY0",
  AWS_SECRET_ACCESS_KEY: `aws-canary-${randomBytes(15).toString("hex")}`,
  AWS_SESSION_TOKEN: `aws-session-canary-${randomBytes(15).toString("hex")}`,
};

/** Bedrock: checks Signature Version 4 by its own code, and answers with frames of AWS. */
export async function openBedrock(model: ScriptedModel, region: string): Promise<FakeCloud> {
  const [passed, refused]: string[][] = [[], []];
  const server = createServer(async (incoming, outgoing) => {
    const body = await read(incoming);
    const why = findFault(incoming, body, region);
    const path = incoming.url ?? "";
    if (why !== undefined) {
      refused?.push(why);
      return void outgoing.writeHead(403, JSON_TYPE).end(`{"message":"${why}"}`);
    }
    passed?.push(`${incoming.method} ${path}`);
    if (path.startsWith("/inference-profiles"))
      return void outgoing.writeHead(200, JSON_TYPE).end('{"inferenceProfileSummaries":[]}');
    const name = decodeURIComponent(/\/model\/([^/]+)\//.exec(path)?.[1] ?? "");
    const answer = await askModel(model, body, { model: name, stream: path.endsWith("-stream") });
    if (!path.endsWith("-stream"))
      return void outgoing.writeHead(answer.status, JSON_TYPE).end(await answer.text());
    outgoing.writeHead(answer.status, { "content-type": "application/vnd.amazon.eventstream" });
    for await (const data of eventsOf(answer)) outgoing.write(toFrame(data));
    outgoing.end();
  });
  return { server: await listen(server), passed: passed ?? [], refused: refused ?? [] };
}

const JSON_TYPE = { "content-type": "application/json" };

/** The signature by AWS's description of it. */
function findFault(
  { headers, method, url = "" }: IncomingMessage,
  body: string,
  region: string,
): string | undefined {
  const { authorization = "", host = "" } = headers;
  const [, id, scope = "", signed = "", given] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      authorization,
    ) ?? [];
  const time = String(headers["x-amz-date"]);
  if (id !== AWS.AWS_ACCESS_KEY_ID) return "no signature of the key";
  if (headers["x-amz-security-token"] !== AWS.AWS_SESSION_TOKEN) return "no session token";
  if (scope !== `${time.slice(0, 8)}/${region}/bedrock/aws4_request`) return `scope ${scope}`;
  if (!signed.split(";").includes("x-amz-security-token")) return "the session token is not signed";
  const [path = "", query = ""] = url.split("?");
  const canonical = [
    method,
    path.split("/").map(encodeURIComponent).join("/"),
    query,
    ...signed.split(";").map((name) => `${name}:${name === "host" ? host : String(headers[name])}`),
    "",
    signed,
    sha256(body),
  ].join("\n");
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical)].join("\n");
  const key = scope
    .split("/")
    .reduce<Buffer | string>((parent, part) => hmac(parent, part), `AWS4${AWS.AWS_SECRET_ACCESS_KEY}`);
  return hmac(key, text).toString("hex") === given ? undefined : "another signature";
}

const ACCOUNT = "agent@project.iam.gserviceaccount.com";
const PAIR = generateKeyPairSync("rsa", { modulusLength: 2_048 });

/** The JSON of a service account's key file. */
export const GOOGLE_KEY: string = JSON.stringify({
  type: "service_account",
  client_email: ACCOUNT,
  private_key_id: "k1",
  private_key: PAIR.privateKey.export({ type: "pkcs8", format: "pem" }),
});

/** Vertex AI with its token endpoint, which checks the signed claim. */
export async function openVertex(model: ScriptedModel): Promise<FakeCloud & { readonly tokens: string[] }> {
  const [passed, refused, tokens]: string[][] = [[], [], []];
  const grant = (form: URLSearchParams, outgoing: ServerResponse, audience: string): void => {
    const [head = "", claims = "", signature = ""] = (form.get("assertion") ?? "").split(".");
    const isSigned = createVerify("RSA-SHA256")
      .update(`${head}.${claims}`)
      .verify(PAIR.publicKey, Buffer.from(signature, "base64url"));
    const { iss, aud, scope, exp } = JSON.parse(Buffer.from(claims, "base64url").toString()) as Record<
      string,
      unknown
    >;
    const isRight =
      iss === ACCOUNT &&
      aud === audience &&
      String(scope).endsWith("/cloud-platform") &&
      Number(exp) > Date.now() / 1_000;
    if (!isSigned || !isRight) return void outgoing.writeHead(401, JSON_TYPE).end("{}");
    tokens?.push(`ya29.canary-${randomBytes(12).toString("hex")}`);
    const answer = { access_token: tokens?.at(-1), expires_in: 3_600, token_type: "Bearer" };
    outgoing.writeHead(200, JSON_TYPE).end(JSON.stringify(answer));
  };
  const server = createServer(async (incoming, outgoing) => {
    const body = await read(incoming);
    const path = incoming.url ?? "";
    const { host, authorization } = incoming.headers;
    if (path === "/token") return grant(new URLSearchParams(body), outgoing, `http://${host}/token`);
    if (!tokens?.some((token) => authorization === `Bearer ${token}`)) {
      refused?.push(`no token for ${path}`);
      return void outgoing
        .writeHead(401, JSON_TYPE)
        .end('{"error":{"code":401,"message":"no","status":"UNAUTHENTICATED"}}');
    }
    passed?.push(`${incoming.method} ${path}`);
    const name = /\/models\/([^/:]+):/.exec(path)?.[1] ?? "";
    const answer = await askModel(model, body, { model: name, stream: true });
    outgoing.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
    for await (const chunk of bytesOf(answer)) outgoing.write(chunk);
    outgoing.end();
  });
  return { server: await listen(server), passed: passed ?? [], refused: refused ?? [], tokens: tokens ?? [] };
}

/** The body of a cloud has neither the model nor the switch for a stream. */
function askModel({ url }: ScriptedModel, body: string, more: object): Promise<Response> {
  const { anthropic_version: _version, ...rest } = JSON.parse(body) as Record<string, unknown>;
  return fetch(`${url}/v1/messages`, {
    method: "POST",
    headers: { ...JSON_TYPE, "x-api-key": "any", "anthropic-version": "2023-06-01" },
    body: JSON.stringify({ ...rest, ...more }),
  });
}

async function* eventsOf(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of bytesOf(answer)) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

function bytesOf({ body }: Response): AsyncIterable<Uint8Array> {
  return (body ?? []) as unknown as AsyncIterable<Uint8Array>;
}

/** One frame of `application/vnd.amazon.eventstream`. */
export function toFrame(data: string, names: Record<string, string> = CHUNK): Buffer {
  const payload = Buffer.from(JSON.stringify({ bytes: Buffer.from(data).toString("base64"), p: "abcdef" }));
  const headers = Buffer.concat(
    Object.entries(names).map(([name, value]) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(Buffer.byteLength(value));
      return Buffer.concat([
        Buffer.of(name.length),
        Buffer.from(name),
        Buffer.of(7),
        length,
        Buffer.from(value),
      ]);
    }),
  );
  const prelude = Buffer.alloc(8);
  prelude.writeUInt32BE(16 + headers.length + payload.length, 0);
  prelude.writeUInt32BE(headers.length, 4);
  const begun = Buffer.concat([prelude, crc32(prelude), headers, payload]);
  return Buffer.concat([begun, crc32(begun)]);
}

const CHUNK = { ":event-type": "chunk", ":content-type": "application/json", ":message-type": "event" };

/** Node 20 has none of its own. */
function crc32(bytes: Buffer): Buffer {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  const result = Buffer.alloc(4);
  result.writeUInt32BE(~sum >>> 0);
  return result;
}

async function read(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
