import t from 'tap';
import { placesFor } from '../../src/shared/scheduler/carry-over.js';

t.test('sequences keep their numbers where there are such, the others take what is free', async (t) => {
  t.same(
    [...placesFor([0, 1, 2], 5)],
    [
      [0, 0],
      [1, 1],
      [2, 2],
    ],
  );
  t.same(
    [...placesFor([4, 1], 2)],
    [
      [4, 0],
      [1, 1],
    ],
  );
  t.same(
    [...placesFor([3, 4], 2)],
    [
      [3, 0],
      [4, 1],
    ],
  );
  t.same([...placesFor([], 2)], []);
});
