import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { extractBrowserUseUrls } from "../../../src/sdk/index.ts";
import { script as steps } from "../../support/engine.ts";
import { CORNERS, hear, named, next, openBench, type SdkBench } from "../../sdk/bench.ts";

/** Section 3.6 for an instance that did not start the run: after a restart of the program, or beside another instance. */
describe.each(named(CORNERS))("%s: a session with a run of another instance", (_name, place) => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench(place);
  });
  afterEach(() => bench.close());

  const WAITING = steps({ say: "early" }, { shell: "until [ -e go ]; do sleep 0.02; done" }, { say: "late" });
  /** A background run of a closed instance, and the id of its session. */
  const left = async (): Promise<string> => {
    const first = bench.make();
    const said = new Promise<void>((resolve) => first.once("content", () => resolve()));
    await first.run({ prompt: WAITING, background: true });
    await said;
    const id = first.getSession() ?? "";
    await first.close();
    return id;
  };

  it("withSession: status says running, and interrupt interrupts", async () => {
    const second = bench.make().withSession(await left());
    await expect
      .poll(() => second.status(), { timeout: 20_000 })
      .toMatchObject({
        sandbox: "running",
        agent: "running",
        activeProcessId: expect.stringMatching(/^turn_/),
        hasRun: true,
      });
    await expect(second.run({ prompt: "no" })).rejects.toMatchObject({ code: "session_busy" });
    expect(await second.interrupt()).toBe(true);
    expect(second.status()).toMatchObject({ sandbox: "ready", agent: "interrupted", activeProcessId: null });
    expect(await second.interrupt()).toBe(false);
  });

  it("interrupt works as the first call", async () => {
    expect(
      await bench
        .make()
        .withSession(await left())
        .interrupt(),
    ).toBe(true);
  });

  it("setSession: status is current at once, the end is that of a background run, and replay continues", async () => {
    const id = await left();
    const second = bench.make();
    const heard = hear(second);
    await second.setSession(id);
    expect(second.status()).toMatchObject({ sandbox: "running", agent: "running" });
    const replayed: string[] = [];
    await second.replay("content", ({ update }) => {
      if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text")
        replayed.push(update.content.text);
    });
    const done = next(second, "run_background_complete");
    await second.uploadFiles({ go: "" });
    await done;
    expect(replayed.join("")).toBe("earlylate");
    expect(heard.reasons()).toEqual(["sandbox_connected", "run_background_complete"]);
    // A listener of `replay` also gets events long after the last one.
    const another = bench.make().withSession(id);
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    await another.run({ prompt: steps({ say: "and more" }) });
    await expect.poll(() => replayed.join(""), { timeout: 20_000 }).toBe("earlylateand more");
  });
});

it("extractBrowserUseUrls takes the first screenshot of the text, as the page's regex does", () => {
  const text = JSON.stringify({
    steps: [{ screenshot_url: "https://a/1" }, { screenshot_url: "https://a/2" }],
    screenshot_url: "https://a/last",
  });
  expect(extractBrowserUseUrls(text).screenshotUrl).toBe("https://a/1");
});
