import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runTurn, SCRIPTED, script } from "../../support/engine.ts";
import { createSampleProject, readSamples, type SampleProject } from "../../support/samples.ts";
import { freePort } from "../../support/server.ts";
import { openReceiver } from "./webhook-receiver.ts";
import { openWebhooks, type WebhookBench } from "./webhook-bench.ts";

const SAMPLES = readSamples("docs/webhooks.md");

function sampleWith(text: string): (typeof SAMPLES)[number] {
  const found = SAMPLES.find(({ code }) => code.includes(text));
  if (!found) throw new Error(`no sample has ${text}`);
  return found;
}

describe("the samples of docs/webhooks.md", () => {
  let bench: WebhookBench;
  let project: SampleProject;
  beforeEach(async () => {
    bench = await openWebhooks({ failures: 1_000 });
    project = await createSampleProject();
  });
  afterEach(async () => {
    await bench.close();
    await project.remove();
  });

  it("receive with the library of Standard Webhooks, each event once", async () => {
    const port = await freePort();
    const { secret, id } = await bench.create({ url: `http://127.0.0.1:${port}/`, types: ["turn.ended"] });
    const { file } = await project.write(sampleWith("new Webhook("));
    const env = { ...process.env, PORT: String(port), WEBHOOK_SECRET: secret };
    const child = spawn(process.execPath, [file], { env, stdio: ["ignore", "pipe", "inherit"] });
    try {
      const lines = createInterface({ input: child.stdout });
      const first = once(lines, "line");
      await bench.test.engine.create("one", SCRIPTED);
      await runTurn(bench.test, "one", script({ say: "hello" }));
      expect(await first).toEqual(["turn.ended one"]);
      const forged = await fetch(`http://127.0.0.1:${port}/`, {
        method: "POST",
        body: "{}",
        headers: { "webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA" },
      });
      expect(forged.status).toBe(401);
      await expect.poll(() => bench.webhooks.deliveries(id)[0]?.delivered).toBe(true);
    } finally {
      const exit = once(child, "exit");
      child.kill();
      await exit;
    }
  });

  it("verify with Node alone", async () => {
    const receiver = await openReceiver();
    try {
      const { secret, id } = await bench.create({ url: receiver.url });
      await bench.call("POST", `/v1/webhooks/${id}/test`);
      const { headers, body } = await receiver.until(({ type }) => type === "webhook.test");
      const { file } = await project.write(sampleWith("isGenuine"));
      const { isGenuine } = (await import(pathToFileURL(file).href)) as {
        isGenuine(secret: string, headers: Record<string, string>, body: string): boolean;
      };
      expect(isGenuine(secret, headers, body)).toBe(true);
      expect(isGenuine(secret, headers, `${body} `)).toBe(false);
      expect(isGenuine(secret, { ...headers, "webhook-timestamp": "1" }, body)).toBe(false);
      expect(isGenuine(secret, { ...headers, "webhook-signature": "v1,AAAA" }, body)).toBe(false);
    } finally {
      await receiver.close();
    }
  });
});
