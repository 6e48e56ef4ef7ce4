import { own } from "../../contract/ownKeys.ts";
import type { EventOf } from "../../contract/index.ts";
import { endSpan } from "./calls.ts";
import { tellFailures } from "./turn-frames.ts";
import { without, type Teller } from "./teller.ts";

export function tellModelStarted(teller: Teller, { data }: EventOf<"model.started">): void {
  tellFailures(teller);
  const eventId = teller.say("span.model_request_start");
  teller.change({ models: { ...teller.state.models, [data.request_id]: eventId } });
}

export function tellModelEnded(teller: Teller, { data }: EventOf<"model.ended">): void {
  const started = own(teller.state.models, data.request_id);
  if (started === undefined) return;
  teller.change({ models: without(teller.state.models, data.request_id) });
  const { usage = {} } = data;
  endSpan(teller, {
    model_request_start_id: started,
    is_error: data.error !== undefined,
    model_usage: {
      input_tokens: usage.input_tokens ?? 0,
      output_tokens: usage.output_tokens ?? 0,
      cache_read_input_tokens: usage.cache_read_tokens ?? 0,
      cache_creation_input_tokens: usage.cache_write_tokens ?? 0,
    },
  });
}
