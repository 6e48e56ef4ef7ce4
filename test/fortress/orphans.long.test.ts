import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { ofType, processesWith, script } from "../support/engine.ts";
import { describeFortress, runSteps, serveAs } from "./fortress-bench.ts";

describeFortress("agents of a server that was killed", (user) => {
  it("end by themselves once they have no turn, and the log tells it; one that works is left alone", async () => {
    const server = await serveAs(user, { args: ["--orphan-minutes", "0.02"] });
    await server.client.sessions.create("idle", { agent: "scripted" });
    await server.client.sessions.create("busy", { agent: "scripted" });
    const first = await runSteps(server, "idle", { say: "done" });
    const sandbox = ofType(first, "sandbox.ready")[0]?.data.sandbox_id;
    await server.client.sendMessage(
      "busy",
      script({ shell: "echo at work; while [ ! -e go ]; do sleep 0.1; done" }, { say: "the end" }),
    );
    for await (const event of server.client.subscribe("busy", { extensions: true })) {
      if (event.type === "item.delta" && event.data.delta.includes("at work")) break;
    }
    const isAlive = async (): Promise<boolean> =>
      (await processesWith(`SLUICE_SANDBOX=${sandbox}`)).length > 0;
    expect(await isAlive()).toBe(true);
    await server.kill();
    while (await isAlive()) await sleep(50);

    await server.start();
    const idle = await server.client.getEvents("idle", { extensions: true });
    expect(ofType(idle, "process.ended").map(({ data }) => data.reason)).toEqual(["stopped"]);
    expect((await server.client.sessions.get("busy")).status).toBe("running");
    await server.client.fs.write("busy", "go", "");
    for await (const event of server.client.subscribe("busy", { extensions: true })) {
      if (event.type === "turn.ended") expect(event.data.status).toBe("completed");
      if (event.type === "turn.ended") break;
    }
    const events = await runSteps(server, "idle", { say: "$history" });
    expect(JSON.stringify(ofType(events, "item.completed").at(-1))).toContain("done");
  });

  it("leave no watch behind when the server is stopped", async () => {
    const server = await serveAs(user);
    await server.client.sessions.create("idle", { agent: "scripted" });
    await runSteps(server, "idle", { say: "done" });
    expect(await processesWith(`sluice-caretaker\0${server.pid}`)).toHaveLength(1);
    const { pid } = server;
    await server.stop();
    while ((await processesWith(`sluice-caretaker\0${pid}`)).length > 0) await sleep(20);
  });
});
