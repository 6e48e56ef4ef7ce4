import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startS3, type S3Server } from "../sandbox/checkpoint/s3.ts";
import { script as steps } from "../support/engine.ts";
import { openBench, type SdkBench } from "./bench.ts";

describe("withStorage({ s3 })", () => {
  let bench: SdkBench;
  let server: S3Server;
  beforeEach(async () => {
    bench = await openBench({ backend: "embedded", sandbox: "local" });
    server = await startS3();
  });
  afterEach(async () => {
    await bench.close();
    await server.stop();
  });

  it("keeps checkpoints in a bucket, for any program with the same configuration", async () => {
    const { endpoint, bucket, accessKeyId, secretAccessKey } = server.options;
    const s3 = { endpoint, bucket, accessKeyId, secretAccessKey, prefix: "team" };
    const sluice = bench.make().withStorage({ s3 });
    const { checkpoint } = await sluice.run({ prompt: steps({ write: { path: "a.txt", content: "kept" } }) });
    expect(checkpoint?.id).toMatch(/^ckpt_/);
    await sluice.kill();
    const other = bench.make().withStorage({ s3 });
    await other.run({ prompt: steps({ say: "x" }), from: "latest" });
    expect((await other.executeCommand("cat a.txt")).stdout).toBe("kept");
    const elsewhere = bench.make().withStorage({ s3: { ...s3, prefix: "other" } });
    expect(await elsewhere.listCheckpoints()).toEqual([]);
  });
});
