import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { runCli } from "./cli.ts";
import { LED_AGENTS } from "./led-table.ts";

/** Nothing listens here. */
const NOWHERE = "http://127.0.0.1:9";

let model: ScriptedModel;
let folder: string;
beforeAll(async () => {
  model = await createScriptedModel();
  folder = mkdtempSync(join(tmpdir(), "cassette-agents-"));
});
afterAll(async () => {
  await model.close();
  rmSync(folder, { recursive: true, force: true });
});

describe.each(LED_AGENTS)(
  "a recorded session of $agent",
  ({ agent, variable, address, path, model: name, reason }) => {
    it.skipIf(reason !== undefined)(
      "replays without a network and a key to the same log, and refuses a changed prompt",
      { timeout: 400_000 },
      async () => {
        const [key, token] = [canary("sk-canary"), canary("tool-canary")];
        const cassette = join(folder, `${agent}-${randomBytes(4).toString("hex")}.cassette.jsonl`);
        const say = `done, ${token.slice(0, 12)}${token.slice(12)}, write to jane.doe@corp.example`;
        const script = (words: string): string =>
          `#script ${JSON.stringify([{ shell: `echo "${words} $DEPLOY_TOKEN"` }, { say }])}`;
        const turn = (words: string, more: string[], env: Record<string, string>) => {
          const workspace = join(folder, `${agent}-${randomBytes(4).toString("hex")}`, "work");
          mkdirSync(workspace, { recursive: true });
          const options = [
            "--agent",
            agent,
            "--sandbox",
            "bwrap",
            "--permission-mode",
            "bypass",
            "--cwd",
            workspace,
          ];
          const chosen = name === undefined ? [] : ["--model", name];
          const secret = ["--secret", "DEPLOY_TOKEN"];
          return runCli(
            ["run", ...options, ...secret, "--as", "universal", ...chosen, ...more, script(words)],
            { XDG_DATA_HOME: join(folder, "data"), DEPLOY_TOKEN: token, ...env },
          );
        };

        model.reset();
        const live = await turn("Please do this.", ["--record", cassette], {
          [variable]: key,
          [address]: model.url + path,
        });
        expect([live.code, live.stderr]).toEqual([0, expect.any(String)]);
        const asked = model.requests.length;
        expect(asked).toBeGreaterThanOrEqual(2);
        const text = readFileSync(cassette, "utf8");
        for (const secret of [
          key,
          token,
          "jane.doe",
          process.env["HOME"] === "/root" ? key : process.env["HOME"],
        ])
          expect(text).not.toContain(secret);
        expect(text).toContain("[redacted:DEPLOY_TOKEN]");
        expect(statSync(cassette).mode & 0o777).toBe(0o600);

        const again = await turn("Please do this.", ["--replay", cassette], { [address]: NOWHERE + path });
        expect([again.code, again.stderr]).toEqual([0, expect.any(String)]);
        expect(model.requests.length).toBe(asked);
        expect(toPlot(again.events)).toEqual(toPlot(live.events));
        expect(toRequests(again.events)).toEqual(toRequests(live.events));
        for (const { data } of find(again.events, "model.ended")) {
          expect(data).toMatchObject({ served_by: "cassette" });
          if (data.usage !== undefined) expect(data.usage.cost_usd).toBe(0);
        }

        const changed = await turn("Please do that.", ["--replay", cassette], { [address]: NOWHERE + path });
        const misses = find(changed.events, "model.ended").filter(
          ({ data }) => data.error?.code === "cassette_miss",
        );
        expect(misses.length).toBeGreaterThan(0);
        expect(misses[0]?.data.error?.message).toMatch(
          /nearest recording is number \d+; the first difference is at \/(?:messages|input|contents)\/\d/,
        );
        expect(find(changed.events, "turn.ended")[0]?.data.status).not.toBe("completed");
        expect(model.requests.length).toBe(asked);
      },
    );
  },
);

function canary(prefix: string): string {
  return `${prefix}-${randomBytes(16).toString("hex")}`;
}

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}

/** The log without times and ids: what happened, in order, and the texts. */
function toPlot(events: readonly SluiceEvent[]): unknown[] {
  const kept = events.filter(({ type }) => !type.startsWith("model.") && type !== "item.delta");
  return kept.map(({ type, data }) => [type, toTimeless(data)]);
}

const FLEETING =
  /_id$|^id$|_ids$|_ms$|^(?:ms|offset|time|cost_usd|served_by|price|duration|input_ids|directory|sandbox_id|title|pid|usage|native|raw|metadata|elapsed|file|path)$/;

function toTimeless(value: unknown): unknown {
  if (typeof value === "string") return maskText(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(toTimeless);
  const kept = Object.entries(value).filter(([name]) => !FLEETING.test(name));
  return Object.fromEntries(kept.map(([name, entry]) => [name, toTimeless(entry)]));
}

/** Ids that the CLIs print. The replay has the scrubbed text where the model spoke of a secret. */
function maskText(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "<id>")
    .replaceAll(/(Chunk ID: |Wall time: |PGID: )[\w.]+/g, "$1<id>")
    .replaceAll("jane.doe@corp.example", "user@example.com");
}

/** The requests without times and ids; side calls have no fixed place among them. */
function toRequests(events: readonly SluiceEvent[]): unknown[] {
  const ended = find(events, "model.ended").map(({ data }) => {
    const { model: name, usage, status, stop_reason, response_id, wire, provider } = data;
    const { cost_usd: _cost, ...tokens } = usage ?? {};
    return JSON.stringify({ name, tokens, status, stop_reason, response_id, wire, provider });
  });
  return ended.toSorted();
}
