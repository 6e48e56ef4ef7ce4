import { setTimeout } from "node:timers/promises";
import { AwsClient } from "aws4fetch";
import { SluiceError } from "../../../contract/index.ts";
import type { CheckpointStorage } from "../port.ts";
import { sha256 } from "./pack.ts";

export interface S3StorageOptions {
  /** Such as `https://s3.eu-central-1.amazonaws.com`. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** Put before every key, with a slash between them. */
  readonly prefix?: string | undefined;
  /** The bucket in the path (the default, which all servers know) or in the host name. */
  readonly pathStyle?: boolean | undefined;
  /** How many times a request is tried, and the first pause between two tries. */
  readonly tries?: number | undefined;
  readonly backoffMs?: number | undefined;
  readonly timeoutMs?: number | undefined;
  /** Keys per page of a listing. */
  readonly pageSize?: number | undefined;
}

/** A storage in a bucket of any S3 server. Packs are small, so each needs one PUT only. */
export function createS3Storage(options: S3StorageOptions): CheckpointStorage {
  return new S3Storage(options);
}

class S3Storage implements CheckpointStorage {
  readonly #bucket: S3Bucket;
  readonly #prefix: string;
  readonly #pageSize: number;
  #conditional = true;

  constructor(options: S3StorageOptions) {
    this.#bucket = new S3Bucket(options);
    this.#prefix = (options.prefix ?? "").replace(/([^/])$/, "$1/");
    this.#pageSize = options.pageSize ?? 1000;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    await this.#demand({ method: "PUT", key: this.#prefix + key, body: bytes });
  }

  async putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean> {
    if (await this.has(key)) return false;
    const put: S3Request = { method: "PUT", key: this.#prefix + key, body: bytes };
    if (this.#conditional) {
      const answer = await this.#bucket.send({ ...put, headers: { "if-none-match": "*" } });
      if (answer.status < 300) return true;
      if (answer.status === 412 || answer.status === 409) return false;
      // Some servers have no conditional writes. Writing again does no harm: the key is the hash of the bytes.
      if (answer.status !== 501) throw this.#bucket.refusal(put, answer);
      this.#conditional = false;
    }
    await this.#demand(put);
    return true;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return (await this.#demand({ method: "GET", key: this.#prefix + key }, { absent: true }))?.bytes;
  }

  async has(key: string): Promise<boolean> {
    return (await this.#demand({ method: "HEAD", key: this.#prefix + key }, { absent: true })) !== undefined;
  }

  async list(prefix: string): Promise<string[]> {
    const keys: string[] = [];
    const first = { "list-type": "2", prefix: this.#prefix + prefix, "max-keys": String(this.#pageSize) };
    for (let token: string | undefined = ""; token !== undefined;) {
      const query = token === "" ? first : { ...first, "continuation-token": token };
      const answer = await this.#demand({ method: "GET", query });
      const page = parseListing(new TextDecoder().decode(answer?.bytes));
      for (const key of page.keys) keys.push(key.slice(this.#prefix.length));
      token = page.next;
    }
    return keys.sort();
  }

  async delete(key: string): Promise<void> {
    await this.#demand({ method: "DELETE", key: this.#prefix + key }, { absent: true });
  }

  /** Throws for every error. With `absent`, a missing key gives undefined instead. */
  async #demand(
    request: S3Request,
    options: { absent?: boolean } = {},
  ): Promise<{ bytes: Uint8Array } | undefined> {
    const answer = await this.#bucket.send(request);
    if (answer.status < 300) return answer;
    const noBucket = new TextDecoder().decode(answer.bytes).includes("NoSuchBucket");
    if (options.absent && answer.status === 404 && !noBucket) return undefined;
    throw this.#bucket.refusal(request, answer);
  }
}

function parseListing(xml: string): { keys: string[]; next: string | undefined } {
  const keys = [...xml.matchAll(/<Key>([^<]*)<\/Key>/g)].map((match) => fromXml(match[1] ?? ""));
  const truncated = /<IsTruncated>\s*true\s*</.test(xml);
  const next = /<NextContinuationToken>([^<]*)</.exec(xml)?.[1];
  return { keys, next: truncated && next !== undefined ? fromXml(next) : undefined };
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function fromXml(text: string): string {
  return text.replaceAll(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    return String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16));
  });
}

interface S3Answer {
  readonly status: number;
  readonly bytes: Uint8Array;
}

interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "DELETE";
  /** Relative to the bucket. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/** Signed requests to one bucket, with retries. */
class S3Bucket {
  readonly #client: AwsClient;
  readonly #base: string;
  readonly #options: S3StorageOptions;

  constructor(options: S3StorageOptions) {
    const { accessKeyId, secretAccessKey, sessionToken, region } = options;
    const session = sessionToken === undefined ? {} : { sessionToken };
    const keys = { accessKeyId, secretAccessKey, ...session };
    this.#client = new AwsClient({ ...keys, region, service: "s3", retries: 0 });
    this.#base = toBase(options);
    this.#options = options;
  }

  async send(request: S3Request): Promise<S3Answer> {
    const { tries = 5, backoffMs = 200 } = this.#options;
    for (let n = 1; ; n++) {
      const answer = await this.#try(request).catch((error: unknown) => {
        if (n < tries) return undefined;
        throw this.#unreachable(error);
      });
      if (answer !== undefined && (!isPassing(answer.status) || n >= tries)) return answer;
      await setTimeout(backoffMs * 2 ** (n - 1) * (0.5 + Math.random() / 2));
    }
  }

  /** The error for an answer of the server, with advice. */
  refusal(request: S3Request, answer: S3Answer): SluiceError {
    const text = new TextDecoder().decode(answer.bytes.subarray(0, 2000));
    const said = /<Code>([^<]*)<\/Code>/.exec(text)?.[1] ?? "no reason given";
    const { endpoint, bucket } = this.#options;
    const detail = `${endpoint} answered ${answer.status} (${said}) to ${request.method} ${request.key ?? ""} in the bucket ${bucket}. Check the bucket's name, its region, and the permissions of the keys.`;
    return new SluiceError("internal", detail, { s3: said, s3Status: answer.status });
  }

  async #try({ method, key = "", query = {}, headers = {}, body }: S3Request): Promise<S3Answer> {
    const path = key.split("/").map(encodeURIComponent).join("/");
    const search = new URLSearchParams(query).toString();
    const response = await this.#client.fetch(`${this.#base}/${path}${search && `?${search}`}`, {
      method,
      headers: { ...headers, "x-amz-content-sha256": sha256(body ?? "") },
      signal: AbortSignal.timeout(this.#options.timeoutMs ?? 120_000),
      ...(body && { body: body as Uint8Array<ArrayBuffer> }),
    });
    return { status: response.status, bytes: new Uint8Array(await response.arrayBuffer()) };
  }

  #unreachable(cause: unknown): SluiceError {
    const why =
      cause instanceof Error ? `${cause.message} ${String(cause.cause ?? "")}`.trim() : String(cause);
    const detail = `The S3 server ${this.#options.endpoint} cannot be reached: ${why}. Check the endpoint and the network.`;
    return new SluiceError("stream_error", detail, {}, { cause });
  }
}

function isPassing(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status !== 501);
}

function toBase({ endpoint, bucket, pathStyle = true }: S3StorageOptions): string {
  const url = new URL(endpoint);
  if (!pathStyle) url.hostname = `${bucket}.${url.hostname}`;
  const path = url.pathname.replace(/\/$/, "");
  return `${url.origin}${path}${pathStyle ? `/${encodeURIComponent(bucket)}` : ""}`;
}
