import { expect, it } from "vitest";
import { describeBwrap, makeProvider } from "../sandbox/bwrap-bench.ts";
import { assistantTexts } from "../support/laws.ts";
import { CLAUDE, GEMINI, GROK } from "./live-agents.ts";
import { resultsOf } from "./told.ts";

describeBwrap("the real CLIs in bwrap", () => {
  it.for([CLAUDE, GEMINI, GROK])(
    "$title runs isolated and reaches only its model",
    { timeout: 60_000 },
    async ({ reason, open }, { skip }) => {
      if (reason !== undefined) return skip(reason);
      const { provider } = await makeProvider();
      const bench = await open({ providers: [provider], defaultSandbox: "bwrap" });
      try {
        await bench.create("isolated", { permissionMode: "bypass" });
        const { end, events } = await bench.play(
          "isolated",
          { write: { path: "a.txt", content: "inside\n" } },
          { shell: "cat a.txt; pwd; cat < /dev/tcp/127.0.0.1/9 || echo closed" },
          { say: "Done here." },
        );
        expect(end).toMatchObject({ status: "completed" });
        expect(assistantTexts(events)).toEqual(["Done here."]);
        expect(resultsOf(events).at(-1)?.content[0]).toMatchObject({
          output: expect.stringMatching(/inside[^]*closed/),
        });
        await bench.expectLawful("isolated");
      } finally {
        await bench.close();
      }
    },
  );
});
