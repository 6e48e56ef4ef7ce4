import { z } from "zod";
import { SluiceError } from "../../contract/index.ts";

export type Order = "asc" | "desc";

/** A cursor is bound to its list and its order. Filters and limit may change between pages. */
export interface PageRequest {
  /** The name of the list: a cursor of another list is invalid. */
  readonly list: string;
  readonly order: Order;
  readonly limit: number;
  /** The cursor of the previous page. */
  readonly page?: string | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_page: string | null;
  readonly prev_page: string | null;
}

/** At most `limit` items after `after`, in this order. */
export interface Stretch {
  readonly order: Order;
  readonly after: number | undefined;
  readonly limit: number;
}

/** Reads one page in either direction. A cursor holds the position of the page's first or last item. */
export async function readPage<T>(
  request: PageRequest,
  read: (stretch: Stretch) => Promise<readonly T[]>,
  positionOf: (item: T) => number,
): Promise<Page<T>> {
  const { list, order, limit } = request;
  const cursor = request.page === undefined ? undefined : parseCursor(request.page, request);
  const isBack = cursor?.back === true;
  const found = await read({ order: isBack ? flip(order) : order, after: cursor?.at, limit: limit + 1 });
  const hasMore = found.length > limit;
  const items = isBack ? found.slice(0, limit).toReversed() : found.slice(0, limit);
  const [first, last] = [items[0], items.at(-1)];
  const forth = (item: T): string => toCursor({ list, order, at: positionOf(item) });
  const back = (item: T): string => toCursor({ list, order, at: positionOf(item), back: true });
  return {
    items,
    next_page: last !== undefined && (isBack || hasMore) ? forth(last) : null,
    prev_page: first !== undefined && (isBack ? hasMore : cursor !== undefined) ? back(first) : null,
  };
}

const Cursor = z.object({
  list: z.string(),
  order: z.enum(["asc", "desc"]),
  at: z.int(),
  back: z.boolean().optional(),
});
type Cursor = z.infer<typeof Cursor>;

function toCursor(cursor: Cursor): string {
  return `page_${Buffer.from(JSON.stringify(cursor)).toString("base64url")}`;
}

function parseCursor(text: string, { list, order }: PageRequest): Cursor {
  const cursor = readCursor(text);
  if (cursor?.list !== list)
    throw invalid(
      "page: this is not a cursor of this list. Use next_page of the previous response unchanged.",
    );
  if (cursor.order !== order)
    throw invalid(
      `page: this cursor belongs to order=${cursor.order}. Start again without page, or keep the order.`,
    );
  return cursor;
}

function readCursor(text: string): Cursor | undefined {
  try {
    return Cursor.parse(JSON.parse(Buffer.from(text.replace(/^page_/, ""), "base64url").toString()));
  } catch {
    return undefined;
  }
}

function flip(order: Order): Order {
  return order === "asc" ? "desc" : "asc";
}

function invalid(detail: string): SluiceError {
  return new SluiceError("invalid_cursor", detail);
}
