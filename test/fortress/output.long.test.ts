import { expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { ofType } from "../support/engine.ts";
import { describeFortress, makeFolder, runInside, runSteps, serveAs } from "./fortress-bench.ts";

const COMMAND =
  "echo one; echo two > /dev/stdout; echo three; echo A >&2; echo B > /dev/stderr; echo C > /dev/fd/2; echo D >&2";

describeFortress("output to a stream that is opened by its name", (user) => {
  for (const workspace of ["a private workspace", "a folder of the server's user"]) {
    const make = async (): Promise<{ directory?: string }> =>
      workspace === "a private workspace" ? {} : { directory: await makeFolder(user) };

    it(`is kept whole and in order for a client's command, in ${workspace}`, async () => {
      const server = await serveAs(user);
      await server.client.sessions.create("demo", { agent: "scripted", ...(await make()) });
      expect(await runInside(server, "demo", COMMAND)).toEqual({
        exitCode: 0,
        stdout: "one\ntwo\nthree\n",
        stderr: "A\nB\nC\nD\n",
      });
    });

    it(`is kept whole and in order for a command of the agent, in ${workspace}`, async () => {
      const server = await serveAs(user);
      await server.client.sessions.create("demo", { agent: "scripted", ...(await make()) });
      const events = await runSteps(server, "demo", { shell: COMMAND });
      expect(toolOutput(events)).toBe("one\ntwo\nthree\nA\nB\nC\nD\n");
    });

    it(`goes on behind an agent that opens its own stderr, in ${workspace}`, async () => {
      const server = await serveAs(user);
      // No ACP agent: it dies of its first request, and its stderr is told.
      const script = "echo A >&2; echo B > /dev/stderr; echo C > /dev/fd/2; echo D >&2; read -r _; exit 3";
      const command = ["/bin/sh", "-c", script];
      await server.client.sessions.create("demo", { agent: "acp", command, ...(await make()) });
      await server.client.sendMessage("demo", "hello");
      const events: SluiceEvent[] = [];
      for await (const event of server.client.subscribe("demo", { extensions: true })) {
        events.push(event);
        if (event.type === "session.ended") break;
      }
      expect(JSON.stringify(events)).toContain("A\\nB\\nC\\nD");
    });
  }
});

function toolOutput(events: readonly SluiceEvent[]): string | undefined {
  const parts = ofType(events, "item.completed").flatMap(({ data }) => data.item.content);
  return parts.find((part) => part.type === "tool_result")?.output;
}
