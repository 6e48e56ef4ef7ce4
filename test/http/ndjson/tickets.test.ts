import { describe, expect, it } from "vitest";
import { Tickets } from "../../../src/http/ndjson/dialect.ts";

const NAME = { conversation: "c1", turn: "turn_1" };
const NOW = Date.parse("2026-01-01T00:00:00Z");
const HOUR = 3_600_000;

describe("the ticket of a turn's events", () => {
  const tickets = new Tickets("secret", HOUR);

  it.each([
    ["the server's own token", { tenant: "default" }],
    ["a token of the default tenant", { tenant: "default", token: "tok_1" }],
    ["a token of a workspace", { tenant: "blue", token: "tok_2" }],
  ])("opens its turn for %s, until it expires", (_, owner) => {
    const ticket = tickets.issue(NAME, owner, NOW) ?? "";
    expect(tickets.open(ticket, NAME, NOW)).toMatchObject({ ...owner, scope: "read", session: "c1" });
    expect(tickets.open(ticket, { ...NAME, turn: "turn_2" }, NOW)).toBeUndefined();
    expect(tickets.open(ticket, NAME, NOW + 2 * HOUR)).toBeUndefined();
  });

  it("stays bound to its time and its token, wherever its parts are cut", () => {
    const ticket = tickets.issue(NAME, { tenant: "default", token: "tok_1" }, NOW) ?? "";
    const [until = "", signature = "", owner = ""] = ticket.split(".");
    const text = until + owner;
    for (let cut = 1; cut <= text.length; cut += 1) {
      const forged = [text.slice(0, cut), signature, text.slice(cut)].join(".").replace(/\.$/, "");
      if (forged === ticket) continue;
      expect(tickets.open(forged, NAME, NOW), forged).toBeUndefined();
    }
  });
});
