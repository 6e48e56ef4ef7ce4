import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import { afterAll, beforeAll, expect, it } from "vitest";
import { harnesses } from "../../src/harness/registry.ts";
import type { Harness } from "../../src/harness/port.ts";
import { runTurn, say, script, waitFor, type TestEngine } from "../support/engine.ts";
import { startServer } from "../support/server.ts";
import { ask, ASKED, describeDamaged, type Harm, sandbox } from "./damaged-session.ts";
import { END, factAgent, tell } from "./fact-agent.ts";

/** Directly in the database, past the log. */
function store(test: TestEngine, id: string, sql: string): void {
  const database = new Database(join(test.folder, "log.db"));
  database.prepare(sql.replace("$ID", "(SELECT ordinal FROM sessions WHERE id = ?)")).run(id);
  database.close();
}

let elsewhere: string;
beforeAll(async () => {
  elsewhere = await mkdtemp(join(tmpdir(), "sluice-elsewhere-"));
  await mkdir(join(elsewhere, "work"));
  process.env["OPENING_TEST_KEY"] = "a-key-to-deploy-with";
});
afterAll(() => rm(elsewhere, { recursive: true, force: true }));

const HARMS: readonly Harm[] = [
  {
    name: "an attachment that is a folder",
    before: async ({ engine }, id) => {
      await (await engine.files(id)).mkdir("shots.png");
      const image = { type: "image", path: "shots.png" } as const;
      const content = [{ type: "text", text: ASKED } as const, image];
      await engine.send(id, { content, via: "test" });
    },
    goesOn: true,
  },
  {
    name: "a secret that the environment has no more, and a command that runs",
    spec: { secrets: { DEPLOY_KEY: "env:OPENING_TEST_KEY" } },
    before: ({ engine }, id) => engine.exec(id, { command: "sleep 300" }),
    harm: async () => delete process.env["OPENING_TEST_KEY"],
    next: "failed",
  },
  {
    name: "a secret that the environment has no more, and a turn that runs",
    spec: { secrets: { DEPLOY_KEY: "env:OPENING_TEST_KEY" } },
    next: "failed",
  },
  {
    name: "a workspace that was deleted",
    harm: async (test, id) => rm(await sandbox(test, id, "workspace"), { recursive: true }),
    goesOn: true,
  },
  {
    name: "a directory that was deleted",
    get spec() {
      return { directory: join(elsewhere, "work") };
    },
    harm: () => rm(join(elsewhere, "work"), { recursive: true }),
    goesOn: true,
  },
  {
    name: "a sandbox that was deleted",
    harm: async (test, id) => rm(await sandbox(test, id), { recursive: true }),
  },
  {
    name: "an empty record of its sandbox",
    harm: async (test, id) => truncate(await sandbox(test, id, "sandbox.json")),
    goesOn: true,
  },
  {
    name: "a record of its sandbox that says nothing",
    harm: async (test, id) => writeFile(await sandbox(test, id, "sandbox.json"), "[]\n"),
    goesOn: true,
  },
  {
    name: "a memory of its files that is none",
    harm: (test, id) => writeFile(join(test.folder, "spools", id, "files.json"), '{"at":"x"}'),
    goesOn: true,
  },
  ...(["}{", '{"head":1,"inbox":7}'] as const).flatMap((text): Harm[] => [
    {
      name: `the snapshot ${text}`,
      before: twoTurns,
      harm: async (test, id) =>
        store(test, id, `UPDATE states SET state = '${text}' WHERE kind = 'snapshot' AND session = $ID`),
      goesOn: true,
    },
    {
      name: `the decoder's state ${text}`,
      before: twoTurns,
      harm: async (test, id) =>
        store(test, id, `UPDATE states SET state = '${text}' WHERE kind = 'checkpoint' AND session = $ID`),
    },
  ]),
  {
    name: "a decoder that always throws",
    spec: { agent: "throws" },
    before: (test, id) => say(test.engine, id, "hello"),
  },
  {
    name: "an agent that writes JSON of any depth",
    spec: { agent: "deep" },
    before: async (test, id) => {
      await say(test.engine, id, "hello");
      await waitFor(test.log, id, "turn.ended");
    },
  },
  {
    name: "an agent whose ids are names of what every object has",
    spec: { agent: "names" },
    before: async (test, id) => {
      await say(test.engine, id, "hello");
      await waitFor(test.log, id, "turn.ended");
    },
  },
];

async function twoTurns(test: TestEngine, id: string): Promise<void> {
  await runTurn(test, id, script({ say: "first" }));
  await ask(test, id);
}

/** An agent that answers each prompt with these lines. */
function answering(id: string, lines: readonly string[], more: Partial<Harness> = {}): Harness {
  const answer = lines.join("\n");
  const agent = factAgent(
    `echo ready; while read -r line; do case $line in prompt*) ${answer}\n;; esac; done`,
  );
  return { ...agent, id, ...more };
}

const item = (id: string): unknown => ({
  item_id: id,
  kind: "tool_call",
  role: "assistant",
  status: "completed",
  content: [{ type: "tool_call", name: "x", arguments: "{}", call_id: id }],
});
const NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty"];
const AGENTS: readonly Harness[] = [
  ...harnesses,
  answering("throws", [tell(END)], {
    decode: () => {
      throw new Error("cannot read that");
    },
    encode: () => {
      throw new Error("cannot say that");
    },
  }),
  answering("deep", [
    `printf '{"type":"custom","data":{"name":"x","value":%s}}\\n' "$(head -c 20000 /dev/zero | tr '\\0' '[')$(head -c 20000 /dev/zero | tr '\\0' ']')"`,
    tell(END),
  ]),
  answering("names", [
    ...NAMES.flatMap((name) => [
      tell({ type: "item.delta", data: { item_id: name, delta: "polluted" } }),
      tell({ type: "item.started", data: { item: { ...(item(name) as object), status: "in_progress" } } }),
      tell({ type: "item.delta", parent_id: name, data: { item_id: name, delta: "{" } }),
      tell({ type: "item.completed", data: { item: item(name) } }),
      tell({ type: "tool.requested", data: { request_id: name, name: "x", input: {}, call_id: name } }),
    ]),
    tell(END),
  ]),
];

describeDamaged(HARMS, AGENTS);

it("no case has changed Object.prototype", () => {
  const plain = {} as Record<string, unknown>;
  expect([plain["text"], plain["itemId"], plain["item"], plain["bridged"]]).toEqual(Array(4).fill(undefined));
});

it("a server starts with an empty sandbox record, and repairs that session", async () => {
  const server = await startServer({ args: ["--sandbox", "local"] });
  try {
    const { client } = server;
    for (const id of ["well", "harmed"]) {
      await client.sessions.create(id, { agent: "scripted" });
      await client.sendMessage(id, ASKED);
    }
    for (const id of ["well", "harmed"])
      for await (const event of client.subscribe(id, { extensions: true }))
        if (event.type === "turn.waiting") break;
    await server.kill();
    const root = join(server.data, "sandboxes");
    for (const name of await readdir(root)) {
      const file = join(root, name, "sandbox.json");
      if ((await readFile(file, "utf8")).includes('"harmed"')) await truncate(file);
    }
    await server.start();
    for (const id of ["well", "harmed"]) {
      const sent = await client.sendMessage(id, script({ say: "again" }));
      const [pending] = (await client.sessions.get(id)).pendingActions;
      if (pending) await client.replyQuestion(id, pending.id, [["yes"]]);
      for await (const event of client.subscribe(id, { extensions: true })) {
        if (event.type !== "turn.ended" || event.data.turn_id !== sent.turnId) continue;
        expect(event.data.status).toBe("completed");
        break;
      }
    }
  } finally {
    await server.close();
  }
}, 60_000);
