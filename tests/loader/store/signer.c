/* SPDX-License-Identifier: MIT */
/* signer.c - for test_stores.py: prints the Authorization header of a GET request.
 *
 *     signer PATH QUERY HOST DATE REGION KEY-ID SECRET */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "loader/store/store_place.h"
#include "loader/store/sigv4.h"

int main(int argc, char **argv)
{
    static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    struct plenum_error err;
    const struct store_backend *backend = store_backend_get(&err);
    char *path = argc == 8 ? place_encode(argv[1], false) : NULL, *authorization = NULL;

    if (path && backend) {
        struct sigv4_header headers[] = {
            {"host", argv[3]}, {"x-amz-content-sha256", empty}, {"x-amz-date", argv[4]}};

        authorization = sigv4_authorization(backend, &(struct sigv4_request){.method = "GET",
                                                                             .path = path,
                                                                             .query = argv[2],
                                                                             .headers = headers,
                                                                             .num_headers = 3,
                                                                             .payload_hash = empty,
                                                                             .region = argv[5],
                                                                             .service = "s3",
                                                                             .key_id = argv[6],
                                                                             .secret = argv[7],
                                                                             .date = argv[4]});
    }
    printf("%s\n",
           authorization ? authorization : "usage: signer PATH QUERY HOST DATE REGION ID SECRET");
    free(authorization);
    free(path);
    return 0;
}
