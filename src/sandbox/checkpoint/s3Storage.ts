import type { CheckpointStorage } from "./port.ts";
import { S3Bucket, type S3Request } from "./s3Bucket.ts";

export interface S3StorageOptions {
  /** Such as `https://s3.eu-central-1.amazonaws.com`. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** Before every key, with a slash between. */
  readonly prefix?: string | undefined;
  /** The bucket in the path (the default, which all servers know) or in the host name. */
  readonly pathStyle?: boolean | undefined;
  /** How often a request is tried, and how long the first wait between two tries is. */
  readonly tries?: number | undefined;
  readonly backoffMs?: number | undefined;
  readonly timeoutMs?: number | undefined;
  /** Keys per page of a listing. */
  readonly pageSize?: number | undefined;
}

/** A bucket of any S3 server. Packs are so small that one PUT each is enough. */
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
      // Not every server knows conditional writes; what is stored so is named by its content anyway.
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
    const asked = { "list-type": "2", prefix: this.#prefix + prefix, "max-keys": String(this.#pageSize) };
    for (let token: string | undefined = ""; token !== undefined;) {
      const query = token === "" ? asked : { ...asked, "continuation-token": token };
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

  /** Undefined where there is no such key and that is an answer too. */
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
