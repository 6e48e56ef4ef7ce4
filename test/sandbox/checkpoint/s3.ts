import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { S3StorageOptions } from "../../../src/sandbox/checkpoint/storage/s3.ts";

export interface S3Server {
  readonly options: S3StorageOptions;
  stop(): Promise<void>;
}

/**
 * A real S3 server in a process of its own, on loopback, with one bucket. It does not check secrets. It writes an
 * object in place, so the requests for one key take turns: S3 itself promises that an object is whole.
 */
export async function startS3(): Promise<S3Server> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-s3-"));
  const child = spawn(process.execPath, ["-e", SERVER, S3RVER, directory], {
    stdio: ["ignore", "pipe", "inherit"],
    // Its listings encrypt their page tokens with a cipher that OpenSSL 3 calls legacy.
    env: { ...process.env, NODE_OPTIONS: "--openssl-legacy-provider" },
  });
  const closed = once(child, "close");
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return {
    options: {
      endpoint: `http://127.0.0.1:${line}`,
      bucket: "checkpoints",
      region: "us-east-1",
      accessKeyId: "S3RVER",
      secretAccessKey: "S3RVER",
      pageSize: 10,
    },
    stop: async () => {
      child.kill("SIGKILL");
      await closed;
      await rm(directory, { recursive: true });
    },
  };
}

const S3RVER = createRequire(import.meta.url).resolve("s3rver");
const SERVER = `
const S3rver = require(process.argv[1]);
const options = { address: "127.0.0.1", port: 0, silent: true, directory: process.argv[2] };
const server = new S3rver({ ...options, configureBuckets: [{ name: "checkpoints", configs: [] }] });
const turns = new Map();
server.middleware.unshift((context, next) => {
  const turn = Promise.resolve(turns.get(context.path)).then(next);
  turns.set(context.path, turn.catch(() => {}));
  return turn;
});
server
  .run()
  .then((address) => console.log(address.port));
`;
