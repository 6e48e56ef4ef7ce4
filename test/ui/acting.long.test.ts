import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPage, type PageBench } from "./page-bench.ts";
import { script } from "./script.ts";

/** The headers of the page's own calls, which a request that is made by hand has not. */
const OWN = { "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty" };

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage();
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

async function create(id: string, steps: readonly unknown[] = [], options: object = {}): Promise<void> {
  // A test may be tried twice on the same server.
  await bench.server.client.sessions.delete(id).catch(() => {});
  await bench.server.client.sessions.create(id, { agent: "scripted", ...options });
  if (steps.length > 0) await bench.server.client.sendMessage(id, script(steps));
}

async function show(id: string, rest = ""): Promise<void> {
  await bench.page.goto("about:blank");
  await bench.open(`#/s/${id}${rest}`);
  await bench.page.waitForSelector(".bar-place");
}

describe("acting", () => {
  const ask = [{ ask: { shell: "echo allowed" } }, { say: "went on" }];

  it("20: a request is answered from the list, by keys", async () => {
    await create("listed", ask);
    await bench.page.goto("about:blank");
    await bench.open("#/");
    await bench.page.waitForSelector(".session-row.selected:has-text('listed') >> text=asks:");
    await bench.page.keyboard.press("a");
    await bench.page.waitForSelector(".ask-dock [data-answer=once]");
    await bench.page.keyboard.press("y");
    await bench.page.waitForSelector(".ask-dock", { state: "detached" });
    await bench.page.waitForSelector(".session-row >> text=went on");
  });

  it("20: in another tab than the transcript, and by the palette", async () => {
    await create("tabbed", ask);
    await show("tabbed", "?tab=usage");
    await bench.page.waitForSelector(".ask-dock [data-answer=reject]");
    await bench.page.keyboard.press("Control+k");
    await bench.page.fill(".palette-input", "reject");
    await bench.page.keyboard.press("Enter");
    await bench.page.waitForSelector(".ask-dock", { state: "detached" });
    await bench.page.keyboard.press("1");
    await bench.page.waitForSelector(".ask >> text=rejected");
  });

  it("20: a rejection with words, a question with an option and with words, a client's tool", async () => {
    await create("asked", [
      { ask: { shell: "rm x" } },
      { question: { prompt: "which?", options: ["red", "blue"] } },
      { question: { prompt: "and why?", options: ["no idea"] } },
      { custom: { name: "weather", input: { city: "Rome" } } },
      { say: "all answered" },
    ]);
    await show("asked");
    const { page } = bench;
    await page.fill(".ask-open input", "not today");
    await page.click(".ask-open [data-answer=reject]");
    await page.click(".ask-open >> text=blue");
    await page.waitForSelector(".ask-open >> text=and why?");
    await page.fill(".ask-open .answer-text input", "because");
    await page.keyboard.press("Enter");
    await page.fill(".ask-open textarea", "sunny");
    await page.click(".ask-open [data-answer=once]");
    await page.waitForSelector(".markdown >> text=all answered");
    const events = await bench.server.client.getEvents("asked", { extensions: true });
    const text = JSON.stringify(events);
    for (const words of ["not today", "blue", "because", "sunny"]) expect(text).toContain(words);
  });

  it("20: the first answer wins, and the loser is told who was first", async () => {
    await create("raced", [...ask, { sleep: 60_000 }]);
    await show("raced");
    await bench.page.waitForSelector(".ask-open [data-answer=once]");
    // The page's answer is held back until somebody else has answered.
    await bench.page.route("**/permissions/**", async (route) => {
      const [pending] = (await bench.server.client.sessions.get("raced")).pendingActions;
      if (pending) await bench.server.client.replyPermission("raced", pending.id, { reply: "reject" });
      await route.continue();
    });
    await bench.page.keyboard.press("y");
    await bench.page.waitForSelector(".toast-bad >> text=already resolved");
    await bench.page.unroute("**/permissions/**");
  });

  it("21: queue, edit, withdraw and steer what waits", async () => {
    await create("queued", [{ say: "working" }, { ask: { shell: "true" } }]);
    await show("queued");
    const { page } = bench;
    await page.waitForSelector(".ask-open");
    for (const words of ["first waits", "second waits"]) {
      await page.keyboard.press("c");
      await page.keyboard.type(words);
      await page.keyboard.press("Control+Enter");
      await page.waitForSelector(`.queue >> text=${words}`);
      await page.keyboard.press("Escape");
    }
    const [steering] = await Promise.all([
      page.waitForRequest((request) => request.url().includes("/queued/messages")),
      page.fill(".composer textarea", "a word on the way").then(() => page.keyboard.press("Alt+Enter")),
    ]);
    expect(steering.postDataJSON()).toMatchObject({ message: "a word on the way", delivery: "steer" });
    // This agent cannot be steered, so the words wait for their own turn.
    await page.waitForSelector(".queue >> text=a word on the way");
    await page.click("[aria-label='Withdraw waiting message 3']");
    await page.waitForSelector(".queue >> text=a word on the way", { state: "detached" });
    await page.click("[aria-label='Withdraw waiting message 2']");
    await page.waitForSelector(".queue >> text=second waits", { state: "detached" });
    await page.click("[aria-label='Edit waiting message 1']");
    await page.fill("dialog textarea", script([{ say: "the edited one ran" }]));
    await page.click("dialog >> text=Keep");
    await page.click(".ask-open [data-answer=once]");
    await page.waitForSelector(".markdown >> text=the edited one ran");
  });

  it("21: a lost answer makes no double, also when the message is sent again by hand", async () => {
    await create("lossy");
    await show("lossy");
    const { page } = bench;
    let lost = 0;
    const reached: number[] = [];
    await page.route("**/lossy/messages**", async (route) => {
      if (lost++ >= 5) return route.continue();
      const headers = { ...(await route.request().allHeaders()), ...OWN };
      reached.push((await route.fetch({ headers })).status());
      await route.abort("connectionreset");
    });
    await page.fill(".composer textarea", script([{ say: "once only" }]));
    await page.keyboard.press("Enter");
    await page.waitForSelector(".toast-bad", { timeout: 30_000 });
    await page.click(".composer >> text=Send");
    await page.waitForFunction(
      () => document.querySelector<HTMLTextAreaElement>(".composer textarea")?.value === "",
    );
    const events = await bench.server.client.getEvents("lossy", { extensions: true });
    expect(reached).toHaveLength(5);
    expect(reached.every((status) => status < 300)).toBe(true);
    expect(events.filter(({ type }) => type === "input.accepted")).toHaveLength(1);
    await page.unroute("**/lossy/messages**");
  });

  it("22: Escape twice stops the turn, from any tab, and the page shows how it ends", async () => {
    await create("stopped", [{ say: "begun" }, { sleep: 60_000 }]);
    await show("stopped", "?tab=timeline");
    await bench.page.waitForSelector(".status-running");
    await bench.page.keyboard.press("Escape");
    await bench.page.waitForSelector(".toast >> text=Press Escape again");
    await bench.page.keyboard.press("Escape");
    await bench.page.keyboard.press("1");
    await bench.page.waitForSelector(".row >> text=interrupt.requested");
    await bench.page.waitForSelector(".turn-row >> text=stopped");
  });

  it("23: a new session with its first message; a missing agent says what installs it", async () => {
    const { page } = bench;
    await bench.open("#/new");
    await page.waitForSelector(".agents input[value=scripted]");
    expect(await page.isChecked("input[value=acp]")).toBe(false);
    const missing = await page.$(".agent.missing input");
    if (missing) {
      await missing.check();
      await page.waitForSelector("fieldset .error");
    }
    await page.check("input[value=scripted]");
    await page.fill("[name=message]", script([{ say: "made by hand" }]));
    const id = `by-hand-${Date.now()}`;
    await page.fill("[name=id]", id);
    await page.fill("[name=title]", "By hand");
    await page.fill("[name=directory]", bench.server.data);
    await page.selectOption("[name=mode]", "acceptEdits");
    await page.selectOption("[name=sandbox]", "local");
    await page.selectOption("[name=network]", "full");
    await page.click("text=Start");
    await page.waitForSelector(".markdown >> text=made by hand");
    expect(await bench.server.client.sessions.spec(id)).toMatchObject({
      agent: "scripted",
      directory: bench.server.data,
      permissionMode: "acceptEdits",
      sandbox: "local",
      network: "full",
      title: "By hand",
    });
    if (!existsSync("/var/run/docker.sock") && process.env["DOCKER_HOST"] === undefined) {
      await bench.open("#/new");
      await page.check("input[value=scripted]");
      await page.selectOption("[name=sandbox]", "docker");
      await page.click("text=Start");
      await page.waitForSelector(".form .error >> text=Install one:");
    }
    await bench.open("#/new");
    await page.waitForSelector(".agents input[value=scripted]");
    await page.fill("[name=id]", "bad-folder");
    await page.fill("[name=directory]", "relative/path");
    await page.click("text=Start");
    await page.waitForSelector(".form .error");
  });

  it("17, 24: checkpoint, fork, pause, resume, terminate and delete, by the menu and by keys", async () => {
    const { page } = bench;
    await create("origin");
    await bench.run("origin", [{ write: { path: "a.txt", content: "a" } }, { say: "done" }]);
    await show("origin");
    const menu = async (item: string): Promise<void> => {
      await page.click("[aria-label=Actions] >> nth=0");
      await page.click(`.menu-list >> text=${item}`);
    };
    await page.click("[aria-label=Actions] >> nth=0");
    await page.waitForSelector(".menu-list >> text=make a checkpoint first");
    await page.keyboard.press("Escape");
    await page.waitForSelector(".menu-list", { state: "detached" });
    await menu("Make a checkpoint");
    await page.waitForSelector(".row-checkpoint");
    const before = (await bench.server.client.sessions.get("origin")).eventCount;
    await page.keyboard.press("f");
    await page.waitForSelector(".facts >> text=fork of");
    expect(await page.getAttribute(".facts a", "href")).toBe("#/s/origin");
    expect((await bench.server.client.sessions.get("origin")).eventCount).toBe(before);
    await page.fill(".composer textarea", script([{ shell: "cat a.txt; echo went-on" }]));
    await page.keyboard.press("Enter");
    await page.waitForSelector(".row-tool >> text=went-on");
    await show("origin");
    await page.click("[aria-label^='Restore the files of event']");
    await page.waitForSelector(".toast >> text=Files restored");
    await page.waitForSelector(".row-checkpoint >> text=Restored");
    await menu("Restore the last checkpoint");
    await page.waitForFunction(
      () => document.querySelectorAll("[data-type='checkpoint.restored']").length === 2,
    );
    await menu("Pause");
    await page.waitForSelector(".head .status-paused");
    await menu("Resume");
    await page.waitForSelector(".head .status-paused", { state: "detached" });
    await menu("Terminate");
    await page.click("dialog .danger");
    await page.waitForSelector(".composer >> text=The session has ended");
    await menu("Delete");
    expect(await page.isDisabled("dialog .danger")).toBe(true);
    await page.fill("dialog input", "origin");
    await page.click("dialog .danger");
    await page.waitForSelector(".sessions");
    await page.waitForSelector(".toast >> text=Deleted");
    await expect(bench.server.client.sessions.get("origin")).rejects.toThrow();
  });
});
