import { mkdir, readdir, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openEngine, runTurn, script, waitFor, type TestEngine } from "../support/engine.ts";
import { ask, describeDamaged, type Harm, replaceByFolder } from "./damaged-session.ts";

const spool = (test: TestEngine, id: string, ...path: string[]): string =>
  join(test.folder, "spools", id, "1", ...path);

describeDamaged([
  { name: "a spool that is gone", harm: (test, id) => rm(spool(test, id), { recursive: true }) },
  { name: "a spool without output", harm: (test, id) => rm(spool(test, id, "out")) },
  { name: "a spool whose output is a folder", harm: (test, id) => replaceByFolder(spool(test, id, "out")) },
  { name: "a spool whose pid is a folder", harm: (test, id) => replaceByFolder(spool(test, id, "pid")) },
  ...["feeder", "copiers", "err"].map((file): Harm => ({
    name: `a spool whose ${file} is a folder`,
    harm: (test, id) => replaceByFolder(spool(test, id, file)),
    goesOn: true,
  })),
  {
    name: "a spool whose err is a folder, and a client that is told all output",
    spec: { echo: true },
    harm: (test, id) => replaceByFolder(spool(test, id, "err")),
    goesOn: true,
  },
  { name: "a spool whose exit is a folder", harm: (test, id) => mkdir(spool(test, id, "exit")) },
  {
    name: "a spool whose input is a folder",
    harm: (test, id) => replaceByFolder(spool(test, id, "in")),
    next: "failed",
  },
  {
    name: "a spool whose feeder is a link to itself",
    harm: async (test, id) => {
      await rm(spool(test, id, "feeder"));
      await symlink("feeder", spool(test, id, "feeder"));
    },
    goesOn: true,
  },
  { name: "a spool whose output was cut off", harm: (test, id) => truncate(spool(test, id, "out")) },
  {
    name: "a spool whose journal is other JSON",
    harm: (test, id) => writeFile(spool(test, id, "sent"), '{"pid":-1}\n'),
  },
  {
    name: "a spool whose journal is garbage",
    harm: (test, id) => writeFile(spool(test, id, "sent"), "}{\n"),
  },
  {
    name: "a spool of a command that is gone",
    before: ({ engine }, id) => engine.exec(id, { command: "sleep 300" }),
    harm: (test, id) => rm(join(test.folder, "spools", id), { recursive: true }),
  },
  {
    name: "a spool of a command without output",
    before: ({ engine }, id) => engine.exec(id, { command: "sleep 300" }),
    harm: async (test, id) => {
      const [command = ""] = await readdir(join(test.folder, "spools", id));
      await rm(join(test.folder, "spools", id, command, "out"));
    },
  },
]);

it("an answer that cannot be written to the agent's input ends the turn, and the next message starts another agent", async () => {
  const test = await openEngine({ defaultSandbox: "local" });
  await test.engine.create("s", { agent: "scripted" });
  await ask(test, "s");
  await replaceByFolder(spool(test, "s", "in"));
  const asked = await waitFor(test.log, "s", "question.requested");
  await test.engine.resolveQuestion("s", asked.data.question_id, { answers: [["yes"]] });
  const ended = await waitFor(test.log, "s", "turn.ended");
  expect([ended.data.stop_reason, ended.data.error?.code]).toEqual(["agent_lost", "undeliverable"]);
  await runTurn(test, "s", script({ say: "again" }));
  await test.close();
}, 60_000);
