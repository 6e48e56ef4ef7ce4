import { setTimeout } from "node:timers/promises";
import { AwsClient } from "aws4fetch";
import { SluiceError } from "../../contract/index.ts";
import type { S3StorageOptions } from "./s3Storage.ts";
import { sha256 } from "./sha256.ts";

export interface S3Answer {
  readonly status: number;
  readonly bytes: Uint8Array;
}

export interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "DELETE";
  /** Relative to the bucket. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/** Signed requests to one bucket, tried again where that can help. */
export class S3Bucket {
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

  /** What the server said, for a person to act on. */
  refusal(request: S3Request, answer: S3Answer): SluiceError {
    const text = new TextDecoder().decode(answer.bytes.subarray(0, 2000));
    const said = /<Code>([^<]*)<\/Code>/.exec(text)?.[1] ?? "no reason given";
    const { endpoint, bucket } = this.#options;
    const detail = `${endpoint} answered ${answer.status} (${said}) to ${request.method} ${request.key ?? ""} in the bucket ${bucket}. Check the bucket's name, its region, and what the keys may do.`;
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
